package bronze

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

func newID() string { return uuid.NewString() }

// own makes sure that the rows of the table are ours: it has our position, or no
// rows, or is taken over.
func (t *Table) own(ctx context.Context, env mssqlcdc.Envelope) error {
	s := t.target.Snapshot()
	if s == nil || t.hasPosition || s.NumFiles() == 0 {
		return nil
	}
	if t.cfg.Adopt.Mode == AdoptRefuse {
		return &ForeignRowsError{Target: t.target.Name(), AppID: t.cfg.AppID, Files: s.NumFiles()}
	}
	return t.adopt(ctx, s, env)
}

// Adopt takes the table over now, as Config.Adopt says, instead of with the first
// window, and tells the position that it is at. The envelope names the source; nothing
// else of it counts. Of a table that has our position, or that does not exist, nothing
// changes.
func (t *Table) Adopt(ctx context.Context, env mssqlcdc.Envelope) (mssqlcdc.LSN, *mssqlcdc.Fact, error) {
	if err := t.checkSource(env); err != nil {
		return mssqlcdc.LSN{}, nil, err
	}
	if err := t.own(ctx, env); err != nil {
		return mssqlcdc.LSN{}, nil, err
	}
	return t.position, t.adopted, nil
}

// adopt gives the table our position by a commit without rows.
func (t *Table) adopt(ctx context.Context, s *delta.Snapshot, env mssqlcdc.Envelope) error {
	for _, c := range before() {
		if _, ok := s.Schema().Field(c.name); !ok && c.name != mssqlcdc.ColCommandID {
			return &AdoptError{Target: t.target.Name(), Reason: fmt.Sprintf("it has no column %s, so it is no log of changes", c.name)}
		}
	}
	highest, lastBatch, err := t.highestChange(ctx, s)
	if err != nil {
		return err
	}
	// Numbers of commits stay unique in the table, whoever gave them.
	t.batchID = max(t.batchID, lastBatch)
	position := t.cfg.Adopt.LSN
	if t.cfg.Adopt.Mode == AdoptFound {
		if position, err = t.cfg.Adopt.Find(ctx); err != nil {
			return err
		}
		if position.IsZero() {
			return &AdoptError{Target: t.target.Name(), Reason: "the facts table has no window of it: set adopt to the LSN up to which the table holds every change"}
		}
		// A crash between a data commit and its facts leaves rows above them.
		// Commits are in the table whole, so the highest one counts.
		if position.Less(highest) {
			position = highest
		}
	}
	if position.Less(highest) {
		return &AdoptError{Target: t.target.Name(), Reason: fmt.Sprintf(
			"it is to be taken over at %s, but it holds changes up to %s, which would come twice: set adopt to at least that LSN", position, highest)}
	}
	return t.commitAdoption(ctx, s, env, position)
}

func (t *Table) commitAdoption(ctx context.Context, s *delta.Snapshot, env mssqlcdc.Envelope, position mssqlcdc.LSN) error {
	properties := sourceProperties(env)
	properties[PropSchemaVersion] = strconv.Itoa(schemaVersion)
	now := t.cfg.Now().UTC()
	batchID := t.batchID + 1
	fact := mssqlcdc.Fact{
		Version: mssqlcdc.FactVersion, AppID: t.cfg.AppID, BatchID: new(batchID), Event: mssqlcdc.EventTableAdopted,
		MinLSN: position, MaxLSN: position, EndLSN: position, StartedAt: &now,
		Target: t.target.Name(), Table: env.Table, CaptureInstance: env.Instance, Generation: env.Generation,
	}
	text, err := encodeFacts(fact, nil)
	if err != nil {
		return err
	}
	_, err = t.target.Table().Commit(ctx, delta.Change{
		Operation:    delta.OpSetProperties,
		Fenced:       &delta.Txn{AppID: t.cfg.AppID, Version: batchID},
		Marks:        marks(t.cfg.AppID, position),
		Metadata:     target.Metadata(s, nil, properties),
		UserMetadata: text,
		ReadVersion:  s.Version(),
	})
	var fenced *delta.FencedError
	if err != nil && !(errors.As(err, &fenced) && fenced.Own) { // an attempt of ours that landed late will do
		return fmt.Errorf("adopting table %s: %w", t.target.Name(), err)
	}
	t.adopted = &fact
	return t.load()
}

// highestChange is the highest commit LSN of the table's change rows, and their
// highest batch id. Snapshot rows carry the LSN of their read, which says nothing
// about changes.
func (t *Table) highestChange(ctx context.Context, s *delta.Snapshot) (lsn mssqlcdc.LSN, batch int64, err error) {
	columns := []string{mssqlcdc.ColStartLSN, mssqlcdc.ColOperation, mssqlcdc.ColBatchID}
	if _, ok := s.Schema().Field(mssqlcdc.ColBatchID); !ok {
		columns = columns[:2]
	}
	highest := ""
	for record, err := range t.target.Table().Read(ctx, s, delta.ReadOptions{Columns: columns}) {
		if err != nil {
			return lsn, 0, fmt.Errorf("looking for the newest change in table %s: %w", t.target.Name(), err)
		}
		lsns, okText := record.Column(0).(*array.String)
		operations, okInt := record.Column(1).(*array.Int32)
		if !okText || !okInt {
			return lsn, 0, &AdoptError{Target: t.target.Name(), Reason: fmt.Sprintf(
				"its columns %s and %s are of types %s and %s, want string and integer", mssqlcdc.ColStartLSN, mssqlcdc.ColOperation,
				record.Column(0).DataType(), record.Column(1).DataType())}
		}
		for i := range lsns.Len() {
			if lsns.IsValid(i) && operations.IsValid(i) && operations.Value(i) != int32(mssqlcdc.Read) && lsns.Value(i) > highest {
				highest = strings.Clone(lsns.Value(i)) // the record's memory goes with the next one
			}
		}
		batch = max(batch, highestBatch(record))
	}
	if highest == "" {
		return lsn, batch, nil
	}
	if lsn, err = mssqlcdc.ParseLSN(highest); err != nil {
		return lsn, 0, &AdoptError{Target: t.target.Name(), Reason: fmt.Sprintf("column %s: %v", mssqlcdc.ColStartLSN, err)}
	}
	return lsn, batch, nil
}

func highestBatch(record arrow.RecordBatch) int64 {
	if record.NumCols() < 3 {
		return 0
	}
	ids, ok := record.Column(2).(*array.Int32)
	if !ok {
		return 0
	}
	highest := int64(0)
	for i, id := range ids.Int32Values() {
		if ids.IsValid(i) {
			highest = max(highest, int64(id))
		}
	}
	return highest
}
