package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/input"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	deltalake "github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor"
)

// childRole, in the environment, makes the test binary a child. Its value says what
// the child does: "pipeline" runs the configuration that is its argument and kills
// itself at the point that killAt numbers.
const (
	childRole     = "E2E_CHILD"
	rolePipeline  = "pipeline"
	roleSimulator = "simulator"
	killAt        = "E2E_KILL_AT" // number of the point, from 1; 0 is none
)

func child(role string) int {
	err := fmt.Errorf("unknown role %q", role)
	switch role {
	case rolePipeline:
		err = runPipeline(os.Args[1])
	case roleSimulator:
		err = runSimulator()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "child: %v\n", err)
		return 1
	}
	return 0
}

// runPipeline is the program with stores, cache and verdict that count what they
// change.
func runPipeline(config string) error {
	c := &crasher{}
	if text := os.Getenv(killAt); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("reading %s: %w", killAt, err)
		}
		c.kill = n
	}
	env := service.NewEnvironment()
	if err := c.register(env); err != nil {
		return err
	}
	state := mssqlcdc.NewRunState()
	code, err := service.RunCLIToCode(context.Background(),
		service.CLIOptSetArgs("child", "-c", config),
		service.CLIOptSetEnvironment(env),
		service.CLIOptOnConfigParse(func(conf *service.ParsedConfig) error {
			conf.Resources().GetOrSetGeneric(mssqlcdc.RunStateKey(""), state)
			return nil
		}))
	if err == nil {
		err = state.Err()
	}
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return err
}

// crasher kills the process at one of the points around the operations that change
// something. A killed process leaves the disk as it is, so each point is one state
// that a crash leaves behind.
type crasher struct {
	kill   int64 // number of the point
	points atomic.Int64
}

// point is a place to die at.
func (c *crasher) point(format string, args ...any) {
	if c.points.Add(1) == c.kill {
		c.die(fmt.Sprintf(format, args...))
	}
}

func (c *crasher) die(where string) {
	fmt.Fprintf(os.Stderr, "\nkilled %s\n", where)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal arrives
}

// around does an operation between two points.
func (c *crasher) around(what string, do func() error) error {
	c.point("before %s", what)
	err := do()
	c.point("after %s", what)
	return err
}

// register replaces the plugins that write by ones that do it between points.
func (c *crasher) register(env *service.Environment) error {
	stores := store.NewRegistry(store.Provider{
		Schemes: []string{""},
		Open: func(_ context.Context, path string) (store.Store, error) {
			st, err := file.New(path)
			return &crashStore{Store: st, c: c, name: filepath.Base(path)}, err
		},
	})
	if err := deltalake.Register(env, deltalake.WithStores(stores), deltalake.WithRetryAfter(10*time.Millisecond)); err != nil {
		return err
	}
	if err := processor.Register(env, processor.WithStores(stores)); err != nil {
		return err
	}
	return env.RegisterCache("atomic_file", service.NewConfigSpec().Field(service.NewStringField("directory")),
		func(conf *service.ParsedConfig, _ *service.Resources) (service.Cache, error) {
			directory, err := conf.FieldString("directory")
			if err != nil {
				return nil, err
			}
			cache, err := checkpoint.NewAtomicFile(directory)
			return &crashCache{Cache: cache, c: c}, err
		})
}

// crashStore has a point before and after everything that changes the store.
type crashStore struct {
	store.Store
	c    *crasher
	name string
}

func (s *crashStore) around(what, path string, do func() error) error {
	return s.c.around(fmt.Sprintf("%s of %s in %s", what, path, s.name), do)
}

func (s *crashStore) Put(ctx context.Context, path string, data []byte) error {
	return s.around("put", path, func() error { return s.Store.Put(ctx, path, data) })
}

func (s *crashStore) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	return s.around("put-if-absent", path, func() error { return s.Store.PutIfAbsent(ctx, path, data) })
}

func (s *crashStore) Delete(ctx context.Context, paths ...string) error {
	return s.around("delete", strings.Join(paths, ", "), func() error { return s.Store.Delete(ctx, paths...) })
}

func (s *crashStore) Create(ctx context.Context, path string) (store.Writer, error) {
	w, err := s.Store.Create(ctx, path)
	return &crashWriter{Writer: w, s: s, path: path}, err
}

type crashWriter struct {
	store.Writer
	s      *crashStore
	path   string
	closed bool
}

func (w *crashWriter) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	return w.s.around("completing", w.path, w.Writer.Close)
}

// crashCache has a point before and after every write of a resume position.
type crashCache struct {
	service.Cache
	c *crasher
}

func (s *crashCache) Set(ctx context.Context, key string, value []byte, ttl *time.Duration) error {
	return s.c.around("storing "+key, func() error { return s.Cache.Set(ctx, key, value, ttl) })
}
