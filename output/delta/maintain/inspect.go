package maintain

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
)

// Report is what [Inspect] finds in a table. Times are in UTC, sizes in bytes.
type Report struct {
	Location    string    `json:"location"`
	ID          string    `json:"id"`
	Name        string    `json:"name,omitempty"`
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created,omitzero"`

	// Version is the newest one; Operation and Engine made it, at a time that the
	// writer said.
	Version   int64     `json:"version"`
	Time      time.Time `json:"time,omitzero"`
	Operation string    `json:"operation,omitempty"`
	Engine    string    `json:"engine,omitempty"`

	MinReaderVersion int      `json:"minReaderVersion"`
	MinWriterVersion int      `json:"minWriterVersion"`
	ReaderFeatures   []string `json:"readerFeatures,omitempty"`
	WriterFeatures   []string `json:"writerFeatures,omitempty"`
	// ReadOnly says why this library does not change the table.
	ReadOnly string `json:"readOnly,omitempty"`

	Columns     []Column          `json:"columns"`
	PartitionBy []string          `json:"partitionBy,omitempty"`
	Properties  map[string]string `json:"properties,omitempty"`

	Data DataReport `json:"data"`
	Log  LogReport  `json:"log"`
	// Applications are the positions that writers keep in the table, by name.
	Applications []Application `json:"applications,omitempty"`
	// Advice says what would do the table good, in sentences.
	Advice []string `json:"advice,omitempty"`
}

// Column is a column of a table.
type Column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
	Comment  string `json:"comment,omitempty"`
}

// DataReport is about the data files of the newest version.
type DataReport struct {
	Files      int64 `json:"files"`
	Bytes      int64 `json:"bytes"`
	Partitions int64 `json:"partitions"`
	// Rows are those that a reader sees, -1 if a file does not say.
	Rows int64 `json:"rows"`
	// Vectors are files with deleted rows, DeletedRows those rows.
	Vectors     int64 `json:"deletionVectors"`
	DeletedRows int64 `json:"deletedRows"`
	// Smallest, Median and Largest are sizes of files, 0 without any.
	Smallest int64 `json:"smallestFile"`
	Median   int64 `json:"medianFile"`
	Largest  int64 `json:"largestFile"`
	// Small counts the files below 16 MB.
	Small int64 `json:"smallFiles"`
	// Removed are files that older versions need, as far as the table remembers.
	Removed      int64 `json:"removedFiles"`
	RemovedBytes int64 `json:"removedBytes"`
}

// LogReport is about the files of the log.
type LogReport struct {
	// OldestCommit is the oldest version whose commit is there, -1 for none.
	OldestCommit int64     `json:"oldestCommit"`
	OldestTime   time.Time `json:"oldestTime,omitzero"`
	Commits      int64     `json:"commits"`
	Checkpoints  int64     `json:"checkpoints"`
	Bytes        int64     `json:"bytes"`
	// Checkpoint is the newest one, -1 for none, and Tail the commits after it.
	Checkpoint int64 `json:"checkpoint"`
	Tail       int64 `json:"commitsSinceCheckpoint"`
	// The retentions as the table's properties or the defaults have them.
	LogRetention  string `json:"logRetention"`
	FileRetention string `json:"deletedFileRetention"`
}

// Application is a writer's position.
type Application struct {
	ID      string    `json:"appId"`
	Version int64     `json:"version"`
	Updated time.Time `json:"lastUpdated,omitzero"`
}

// Inspect reads what a table consists of, from its log.
func Inspect(ctx context.Context, t *delta.Table) (Report, error) {
	s, err := t.Refresh(ctx)
	if err != nil {
		return Report{}, err
	}
	r := describe(t, s)
	if r.Data, err = inspectData(ctx, s); err == nil {
		r.Log, err = inspectLog(ctx, t, s)
	}
	if err == nil {
		err = r.lastCommit(ctx, t, s)
	}
	if err != nil {
		return Report{}, fmt.Errorf("inspecting table %s: %w", t.Store().URL(), err)
	}
	r.advise(t.Now())
	return r, nil
}

// describe is what the snapshot says by itself.
func describe(t *delta.Table, s *delta.Snapshot) Report {
	m, p := s.Metadata(), s.Protocol()
	r := Report{
		Location: t.Store().URL(), ID: m.ID, Name: m.Name, Description: m.Description, Version: s.Version(),
		MinReaderVersion: p.MinReaderVersion, MinWriterVersion: p.MinWriterVersion,
		ReaderFeatures: p.ReaderFeatures, WriterFeatures: p.WriterFeatures,
		PartitionBy: m.PartitionColumns, Properties: m.Configuration,
	}
	if m.CreatedTime != nil {
		r.Created = time.UnixMilli(*m.CreatedTime).UTC()
	}
	if err := t.CheckWritable(); err != nil {
		r.ReadOnly = err.Error()
	}
	for _, f := range s.Schema().Fields {
		r.Columns = append(r.Columns, Column{Name: f.Name, Type: f.Type.String(), Nullable: f.Nullable, Comment: f.Comment()})
	}
	for txn := range s.AppVersions() {
		app := Application{ID: txn.AppID, Version: txn.Version}
		if txn.LastUpdated != nil {
			app.Updated = time.UnixMilli(*txn.LastUpdated).UTC()
		}
		r.Applications = append(r.Applications, app)
	}
	slices.SortFunc(r.Applications, func(a, b Application) int { return strings.Compare(a.ID, b.ID) })
	return r
}

func inspectData(ctx context.Context, s *delta.Snapshot) (DataReport, error) {
	var d DataReport
	var sizes []int64
	seed, partitions := maphash.MakeSeed(), map[uint64]struct{}{}
	for f, err := range s.FileActions(ctx) {
		if err != nil {
			return d, err
		}
		if f.Remove != nil {
			d.Removed++
			if f.Remove.Size != nil {
				d.RemovedBytes += *f.Remove.Size
			}
			continue
		}
		sizes = append(sizes, f.Add.Size)
		d.Bytes += f.Add.Size
		partitions[maphash.String(seed, partitionKey(f.Add.PartitionValues))] = struct{}{}
		if f.Add.Size < DefaultAutoSmall {
			d.Small++
		}
		if dv := f.Add.DeletionVector; dv != nil {
			d.Vectors++
			d.DeletedRows += dv.Cardinality
		}
		if rows, ok := numRecords(*f.Add); !ok {
			d.Rows = -1
		} else if d.Rows >= 0 {
			d.Rows += rows
		}
	}
	if d.Rows >= 0 {
		d.Rows -= d.DeletedRows
	}
	d.Files, d.Partitions = int64(len(sizes)), int64(len(partitions))
	if len(sizes) > 0 {
		slices.Sort(sizes)
		d.Smallest, d.Median, d.Largest = sizes[0], sizes[len(sizes)/2], sizes[len(sizes)-1]
	}
	return d, nil
}

func inspectLog(ctx context.Context, t *delta.Table, s *delta.Snapshot) (LogReport, error) {
	l := LogReport{OldestCommit: -1, Checkpoint: -1}
	for f, err := range logFiles(ctx, t.Store()) {
		if err != nil {
			return l, err
		}
		l.Bytes += f.info.Size
		switch f.kind {
		case commitFile:
			if l.OldestCommit < 0 {
				l.OldestCommit, l.OldestTime = f.version, f.info.ModTime.UTC()
			}
			l.Commits++
		case checkpointFile:
			l.Checkpoints++
		}
	}
	seg, err := replay.Load(ctx, t.Store(), s.Version())
	if err != nil {
		return l, err
	}
	if seg.Checkpoint != nil {
		l.Checkpoint = seg.Checkpoint.Version
	}
	l.Tail = s.Version() - l.Checkpoint
	properties := s.Metadata().Configuration
	l.LogRetention = retentionText(delta.LogRetention(properties))
	l.FileRetention = retentionText(delta.FileRetention(properties))
	return l, nil
}

func retentionText(d time.Duration, err error) string {
	if err != nil {
		return err.Error()
	}
	return FormatRetention(d)
}

// FormatRetention is a retention in words: whole days, or hours, or as Go has it.
func FormatRetention(d time.Duration) string {
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}} {
		if n := d / unit.length; n > 0 && d%unit.length == 0 {
			if n == 1 {
				return "1 " + unit.name
			}
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return d.String()
}

// lastCommit is what the newest commit says of itself.
func (r *Report) lastCommit(ctx context.Context, t *delta.Table, s *delta.Snapshot) error {
	for c, err := range t.Commits(ctx, s.Version()) {
		if err != nil {
			return err
		}
		if c.Version != s.Version() {
			continue
		}
		r.Operation, r.Engine = c.Info.Operation, c.Info.EngineInfo
		if c.Info.Timestamp > 0 {
			r.Time = time.UnixMilli(c.Info.Timestamp).UTC()
		}
	}
	return nil
}

// advise fills in the advice.
func (r *Report) advise(now time.Time) {
	say := func(format string, a ...any) { r.Advice = append(r.Advice, fmt.Sprintf(format, a...)) }
	if r.ReadOnly != "" {
		return
	}
	if r.Data.Small >= DefaultAutoFiles && r.Data.Small > 2*r.Data.Partitions {
		say("%d of %d files are smaller than 16 MB: optimize packs them", r.Data.Small, r.Data.Files)
	}
	if r.Data.Vectors > 0 && r.Data.Rows >= 0 && float64(r.Data.DeletedRows) > DefaultDeletedRatio*float64(r.Data.Rows+r.Data.DeletedRows) {
		say("%d rows are deleted and still in the files: optimize rewrites those files", r.Data.DeletedRows)
	}
	if r.Log.Tail > 200 {
		say("the newest checkpoint is %d commits old: checkpoint makes the table open faster", r.Log.Tail)
	}
	retention, err := delta.LogRetention(r.Properties)
	switch {
	case err != nil:
		say("%v", err)
	case r.Log.OldestCommit >= 0 && r.Log.OldestCommit < r.Log.Checkpoint && now.Sub(r.Log.OldestTime) > retention+48*time.Hour:
		say("the log reaches back to %s and is kept for %s: cleanup deletes what is older, if a checkpoint is that old",
			r.Log.OldestTime.Format(time.DateOnly), r.Log.LogRetention)
	}
}
