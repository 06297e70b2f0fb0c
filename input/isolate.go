package input

import (
	"fmt"
	"sync"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// leaveOut goes on without a table, if another is left.
func (s *stream) leaveOut(t *table, err error) error {
	t.isolated, t.moved = true, false
	s.metrics.failed.Incr(1, t.id.String())
	s.log.Errorf("Table %s is left out from here on: %v", t.id, err)
	for _, other := range s.tables {
		if !other.isolated {
			return nil
		}
	}
	return fmt.Errorf("no table is left: %w", err)
}

// leaveOutRefused goes on without the tables that an output cannot write. It is
// called between epochs, when nothing of them is in flight.
func (s *stream) leaveOutRefused() error {
	for _, t := range s.tables {
		err := s.refused.of(t.id)
		if err == nil || t.isolated {
			continue
		}
		if err := s.leaveOut(t, err); err != nil {
			return err
		}
	}
	return nil
}

// refused are the tables that an output said it cannot write. Outputs say so from
// goroutines of theirs, before they reject the message.
type refused struct {
	mu     sync.Mutex
	tables map[mssqlcdc.TableID]error // every table of the input, with what an output said
}

func (r *refused) own(table mssqlcdc.TableID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tables == nil {
		r.tables = map[mssqlcdc.TableID]error{}
	}
	if _, known := r.tables[table]; !known {
		r.tables[table] = nil
	}
}

// add is the input's mssqlcdc.TableOwner: it takes tables of this input.
func (r *refused) add(table mssqlcdc.TableID, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, own := r.tables[table]; !own {
		return false
	}
	r.tables[table] = err
	return true
}

func (r *refused) of(table mssqlcdc.TableID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tables[table]
}
