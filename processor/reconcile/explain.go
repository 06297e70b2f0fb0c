package reconcile

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// maxExplained is how many buckets of the source are read again to show keys and columns.
const maxExplained = 8

// shown is a row that is read again to be shown.
type shown struct {
	key     map[string]any
	columns []digest // of the plan's columns
	rank    rank
}

// explain reads the rows of the listed keys again, from the version of the table that was compared and from a few buckets of the source, and
// tells how they differ.
func (r *run) explain(ctx context.Context) ([]Failure, error) {
	if len(r.wrong) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(r.wrong, func(a, b finding) int { return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.kind, b.kind)) })
	wanted := map[digest]bool{}
	for _, f := range r.wrong {
		wanted[f.key] = true
	}
	ofTable, err := r.showTarget(ctx, wanted)
	if err != nil {
		return nil, err
	}
	source, read, err := r.showSource(ctx, wanted)
	if err != nil {
		return nil, err
	}
	var failures []Failure
	for _, f := range r.wrong {
		s, inSource := source[f.key]
		t, inTable := ofTable[f.key]
		failure := Failure{Type: f.kind, TargetLSN: f.lsn}
		if failure.Key = t.key; !inTable {
			failure.Key = s.key
		}
		if f.bucket != noBucket {
			failure.Bucket = new(f.bucket)
		}
		if f.kind == RecordDiff && inSource && inTable && !f.landed {
			failure.Columns = r.plan.differing(s, t)
		}
		switch {
		case f.landed:
			failure.Note = "it still differs after the table has passed its change"
		case f.bucket != noBucket && !read[f.bucket]:
			failure.Note = "its bucket was not read again"
		case f.kind == RecordDiff && len(failure.Columns) == 0:
			failure.Note = "the source's row has changed since"
		}
		failures = append(failures, failure)
	}
	return failures, nil
}

// differing names the columns in which two rows differ.
func (p *plan) differing(a, b shown) []string {
	var names []string
	for i, col := range p.columns {
		if a.columns[i] != b.columns[i] {
			names = append(names, col.name)
		}
	}
	return names
}

// showTarget reads the last rows of keys from the target.
func (r *run) showTarget(ctx context.Context, wanted map[digest]bool) (map[digest]shown, error) {
	var mu sync.Mutex
	found := map[digest]shown{}
	err := r.target.rows(ctx, r.plan, func(m *images) error {
		show, err := r.plan.shower(m.rec, ofTarget)
		if err != nil {
			return err
		}
		for row := range m.n {
			key := m.key(row)
			if !wanted[key] {
				continue
			}
			place, counts, err := m.rank(row)
			if err != nil {
				return err
			}
			if !counts {
				continue
			}
			one := show(row)
			one.rank = place
			mu.Lock()
			if have, ok := found[key]; !ok || have.rank.before(place) {
				found[key] = one
			}
			mu.Unlock()
		}
		return nil
	})
	return found, err
}

// showSource reads the buckets with most of the keys again.
func (r *run) showSource(ctx context.Context, wanted map[digest]bool) (map[digest]shown, map[int64]bool, error) {
	keys := map[int64]int{}
	for _, f := range r.wrong {
		if f.bucket != noBucket {
			keys[f.bucket]++
		}
	}
	numbers := slices.SortedFunc(maps.Keys(keys), func(a, b int64) int { return cmp.Or(cmp.Compare(keys[b], keys[a]), cmp.Compare(a, b)) })
	found, read := map[digest]shown{}, map[int64]bool{}
	for _, number := range numbers[:min(len(numbers), maxExplained)] {
		read[number] = true
		err := r.reader.read(ctx, r.join.buckets[number], true, func(rec arrow.RecordBatch) error {
			d, err := r.plan.bind(rec, ofSource, false)
			if err != nil {
				return err
			}
			show, err := r.plan.shower(rec, ofSource)
			if err != nil {
				return err
			}
			for row := range int(rec.NumRows()) {
				if key := d.key(row); wanted[key] {
					found[key] = show(row)
				}
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return found, read, nil
}

// shower gives what is shown of a record's rows.
func (p *plan) shower(rec arrow.RecordBatch, names side) (func(row int) shown, error) {
	encoders := make([]appender, len(p.columns))
	for i, col := range p.columns {
		var err error
		if encoders[i], err = p.encoder(rec, col, names); err != nil {
			return nil, err
		}
	}
	values := mssqlcdc.RowReader(rec, 0)
	var buf []byte
	return func(row int) shown {
		one := shown{key: map[string]any{}}
		object := values(row)
		for i, col := range p.columns {
			buf = encoders[i](buf[:0], row)
			one.columns = append(one.columns, digestOf(buf))
			if col.key {
				one.key[col.name] = showable(object[names(col)])
			}
		}
		return one
	}, nil
}

// showable is a value of a key that outlives its record and has a JSON form.
func showable(v any) any {
	switch v := v.(type) {
	case string:
		return string([]byte(v))
	case []byte:
		return "0x" + hex.EncodeToString(v)
	case time.Time:
		return v.Format("2006-01-02T15:04:05.999999")
	}
	return v
}
