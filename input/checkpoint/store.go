package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// ErrTorn is returned by [Store.Load] when something is stored for the table but
// neither slot is whole. One torn slot is no error: the other one is used.
var ErrTorn = errors.New("both slots of the resume position are torn")

// Cache is what the store needs of a cache: service.Cache has it. Get returns
// service.ErrKeyNotFound for a key that does not exist.
type Cache interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Set(ctx context.Context, key string, value []byte, ttl *time.Duration) error
}

// Access runs fn with the cache. It is Resources.AccessCache bound to a name.
type Access func(ctx context.Context, fn func(Cache)) error

// Store keeps the states of the tables of one input under one key prefix. Each
// table has two slots that are written in turn, so that a write that is cut off
// leaves the one before it. It is safe for concurrent use.
type Store struct {
	access Access
	key    string

	mu       sync.Mutex
	sequence map[mssqlcdc.TableID]uint64 // of the newest slot
}

// NewStore makes a store whose keys start with key.
func NewStore(access Access, key string) *Store {
	return &Store{access: access, key: key, sequence: map[mssqlcdc.TableID]uint64{}}
}

// Load reads the newest whole state of a table; false if none was ever stored.
func (s *Store) Load(ctx context.Context, table mssqlcdc.TableID) (State, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest slot
	found, torn := false, 0
	for number := range uint64(2) {
		raw, err := s.get(ctx, s.slotKey(table, number))
		if errors.Is(err, service.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return State{}, false, fmt.Errorf("reading the resume position of %s: %w", table, err)
		}
		decoded, err := decodeSlot(raw)
		if errors.Is(err, errTorn) {
			torn++
			continue
		}
		if err != nil {
			return State{}, false, fmt.Errorf("reading the resume position of %s from key %q: %w", table, s.slotKey(table, number), err)
		}
		if !found || decoded.sequence > newest.sequence {
			newest, found = decoded, true
		}
	}
	if !found && torn > 0 {
		return State{}, false, fmt.Errorf("reading the resume position of %s from keys %q and %q: %w; delete both keys to start again from start_from (rows that are already in the table are skipped)",
			table, s.slotKey(table, 0), s.slotKey(table, 1), ErrTorn)
	}
	if !found {
		delete(s.sequence, table)
		return State{}, false, nil
	}
	s.sequence[table] = newest.sequence
	return newest.state, true, nil
}

// Save stores a state over the older of the table's two slots. It returns when
// the cache has taken it.
func (s *Store) Save(ctx context.Context, table mssqlcdc.TableID, state State) error {
	state.Version = StateVersion
	if err := state.Validate(); err != nil {
		return fmt.Errorf("storing the resume position of %s: %w", table, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := slot{sequence: s.sequence[table] + 1, state: state}
	raw, err := next.encode()
	if err != nil {
		return err
	}
	key := s.slotKey(table, next.sequence%2)
	var setErr error
	err = s.access(ctx, func(c Cache) { setErr = c.Set(ctx, key, raw, nil) })
	if err := errors.Join(err, setErr); err != nil {
		return fmt.Errorf("storing the resume position of %s under key %q: %w", table, key, err)
	}
	s.sequence[table] = next.sequence
	return nil
}

func (s *Store) get(ctx context.Context, key string) ([]byte, error) {
	var raw []byte
	var getErr error
	err := s.access(ctx, func(c Cache) { raw, getErr = c.Get(ctx, key) })
	return raw, errors.Join(err, getErr)
}

func (s *Store) slotKey(table mssqlcdc.TableID, number uint64) string {
	return fmt.Sprintf("%s/%s/%d", s.key, table, number)
}
