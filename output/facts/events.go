package facts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// eventKey tells events apart by what they say.
type eventKey [16]byte

func keyOf(f *mssqlcdc.Fact) eventKey {
	return keyOfTexts(f.AppID, f.Target, string(f.Event), f.CaptureInstance,
		textOf(lsn(f.MinLSN)), textOf(lsn(f.MaxLSN)), textOf(lsn(f.EndLSN)), f.Detail)
}

func textOf(v any) string {
	text, _ := v.(string)
	return text
}

// keyOfTexts takes application, target, event, instance, three LSNs and detail. The
// LSN of a snapshot names its begin and its end; what was counted may differ where
// the last chunk came again.
func keyOfTexts(texts ...string) eventKey {
	switch mssqlcdc.Event(texts[2]) {
	case mssqlcdc.EventSnapshotOpen, mssqlcdc.EventBootstrap, mssqlcdc.EventResnapshot:
		texts = texts[:7]
	}
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return eventKey(sum[:16])
}

// readEvents reads the keys of the events in the table. There are few beside the
// windows, but for those that only say that nothing was to do.
func (w *Writer) readEvents(ctx context.Context) (map[eventKey]struct{}, error) {
	known := map[eventKey]struct{}{}
	names := []string{colAppID, colTarget, colEvent, colInstance, colMinLSN, colMaxLSN, colEndLSN, colDetail}
	err := w.read(ctx, names, func(texts []string) {
		if event := texts[2]; event != "" && event != string(mssqlcdc.EventPositionPassed) {
			known[keyOfTexts(texts...)] = struct{}{}
		}
	})
	return known, err
}

// read calls yield with the texts of these columns of every row, "" for NULL and
// for columns that the table does not have.
func (w *Writer) read(ctx context.Context, names []string, yield func(texts []string)) error {
	s := w.target.Snapshot()
	present := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return s.Schema().Index(name) < 0 })
	texts := make([]string, len(names))
	for rec, err := range w.target.Table().Read(ctx, s, delta.ReadOptions{Columns: present}) {
		if err != nil {
			return fmt.Errorf("reading facts: %w", err)
		}
		columns := make([]arrow.Array, len(names))
		for i, name := range names {
			if at := slices.Index(present, name); at >= 0 {
				columns[i] = rec.Column(at)
			}
		}
		for i := range int(rec.NumRows()) {
			for c, column := range columns {
				texts[c] = ""
				if text, ok := column.(*array.String); ok && text.IsValid(i) {
					texts[c] = text.Value(i)
				}
			}
			yield(texts)
		}
	}
	return nil
}

// LastEnd is the highest end of a window, or of a whole snapshot, that the table
// has for a target: that is where a table of mssql-cdc-pyspark is taken over. Rows
// of the application id, or of a generation of it, count where no row names the
// target and they all name one other, as a table has that was given by its name
// there and by its path here. Zero is that nothing was found.
func (w *Writer) LastEnd(ctx context.Context, target, appID string) (mssqlcdc.LSN, error) {
	ends := map[string]mssqlcdc.LSN{}  // by target
	byApp := map[string]mssqlcdc.LSN{} // of the application's rows, by target
	var invalid error
	names := []string{colAppID, colTarget, colEvent, colEndLSN, colMaxLSN}
	err := w.read(ctx, names, func(texts []string) {
		switch mssqlcdc.Event(texts[2]) {
		case mssqlcdc.EventWindow, mssqlcdc.EventBootstrap, mssqlcdc.EventResnapshot:
		default:
			return
		}
		// Without metrics the end of a window is not known, and its last row is.
		text := cmp.Or(texts[3], texts[4])
		if text == "" {
			return
		}
		end, err := mssqlcdc.ParseLSN(text)
		if err != nil {
			invalid = err
			return
		}
		name := strings.Clone(strings.TrimRight(texts[1], "/"))
		if ends[name].Less(end) {
			ends[name] = end
		}
		if (texts[0] == appID || strings.HasPrefix(texts[0], appID+".g")) && byApp[name].Less(end) {
			byApp[name] = end
		}
	})
	if err := errors.Join(err, invalid); err != nil {
		return mssqlcdc.LSN{}, fmt.Errorf("looking for the end of table %s: %w", target, err)
	}
	if end, ok := ends[strings.TrimRight(target, "/")]; ok {
		return end, nil
	}
	if len(byApp) == 1 {
		for _, end := range byApp {
			return end, nil
		}
	}
	return mssqlcdc.LSN{}, nil
}
