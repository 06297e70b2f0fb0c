package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// Config says what is simulated. Zero values mean what the fields say; of Seed, Script, Workloads and HugeRows they mean what the state file
// says where there is one.
type Config struct {
	Addr            string        // to listen on; a free port of 127.0.0.1 when empty
	Seed            int64         // of the log and the workloads; 1 when 0
	Script          string        // T-SQL that runs first, batches parted by lines of GO
	Workloads       []string      // of Names, run side by side; orders and types when nil
	WarmUp          int           // steps of every workload that are made at once
	Every           time.Duration // pause between two steps; 0 makes none after the warm-up
	CaptureInterval time.Duration // pause between two captures; a second when 0
	HugeRows        int           // of the transaction of huge_transaction; 100,000 when 0
	State           string        // file to resume from and to go on writing; none when empty
}

// ErrDiverged means that a simulation cannot be resumed, since clients had written to it.
var ErrDiverged = errors.New("clients wrote to this simulation, which its file does not keep")

// Simulation is a running server. Run is for one goroutine.
type Simulation struct {
	Server *sqlserversim.Server
	Steps  int // made so far, those of the file included

	cfg     Config
	start   time.Time
	clock   *stepClock
	journal *journal
	tasks   []stepper
	maxLSN  string
}

// Names lists the workloads.
func Names() []string {
	return []string{"orders", "types", "key_moves", "huge_transaction", "idle", "ddl"}
}

// stepper is a workload that goes on for ever.
type stepper interface {
	Step(ctx context.Context) error
}

// stepClock is the machine's clock, but stands still while a step is made, so that the step can be made again.
type stepClock struct {
	mu    sync.Mutex
	fixed time.Time
	last  time.Time
}

// Now never goes back.
func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.fixed
	if now.IsZero() {
		now = time.Now()
	}
	if now.After(c.last) {
		c.last = now
	}
	return c.last
}

func (c *stepClock) stand(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed = t
}

// Start starts the server and makes what the state file says, or else runs the script, makes the workloads' tables and warms up.
func Start(ctx context.Context, cfg Config) (_ *Simulation, err error) {
	for _, name := range cfg.Workloads {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("starting the simulation: there is no workload %q, only %s", name, strings.Join(Names(), ", "))
		}
	}
	h, entries, good, err := readJournal(cfg.State)
	if err != nil {
		return nil, err
	}
	if h == nil {
		h = &header{Version: 1, Seed: 1, Start: time.Now().UTC(), Workloads: []string{"orders", "types"}, Rows: 100_000}
		h.take(cfg)
	} else if differs := h.differs(cfg); differs != "" {
		return nil, fmt.Errorf("resuming from %s: asked for %s; leave that out, or take another file", cfg.State, differs)
	}
	cfg.Seed, cfg.Script, cfg.Workloads, cfg.HugeRows = h.Seed, h.Script, h.Workloads, h.Rows
	cfg.CaptureInterval = cmp.Or(cfg.CaptureInterval, time.Second)
	s := &Simulation{cfg: cfg, clock: &stepClock{}, start: h.Start}
	s.clock.stand(s.start)
	s.Server, err = sqlserversim.Start(sqlserversim.WithAddr(cmp.Or(cfg.Addr, "127.0.0.1:0")), sqlserversim.WithSeed(cfg.Seed),
		sqlserversim.WithClock(s.clock), sqlserversim.WithCaptureInterval(0)) // captures are ours, and in the file
	if err != nil {
		return nil, fmt.Errorf("starting the simulator: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, e := range entries {
		if err := s.again(ctx, e); err != nil {
			return nil, err
		}
	}
	if s.journal, err = openJournal(cfg.State, good, *h); err != nil {
		return nil, err
	}
	s.clock.stand(time.Time{})
	if len(entries) > 0 {
		return s, nil
	}
	if err := s.do(ctx, doPrepare); err != nil {
		return nil, err
	}
	for range cfg.WarmUp {
		if err := s.do(ctx, doStep); err != nil {
			return nil, err
		}
	}
	return s, s.do(ctx, doCapture)
}

// again makes an entry of the file once more.
func (s *Simulation) again(ctx context.Context, e entry) error {
	s.clock.stand(e.At)
	if err := s.act(ctx, e.Do); err != nil {
		return fmt.Errorf("resuming from %s: %w", s.cfg.State, err)
	}
	if e.Do == doCapture && s.maxLSN != e.MaxLSN {
		return fmt.Errorf("resuming from %s: at %s max_lsn was %s, and is %s now: %w; take another file", s.cfg.State, e.At.Format(time.RFC3339), e.MaxLSN, s.maxLSN, ErrDiverged)
	}
	return nil
}

// do makes something now and writes it down. A capture that found nothing is not written.
func (s *Simulation) do(ctx context.Context, what action) error {
	now := s.clock.Now()
	s.clock.stand(now)
	defer s.clock.stand(time.Time{})
	before := s.maxLSN
	if err := s.act(ctx, what); err != nil {
		return err
	}
	if what == doCapture && s.maxLSN == before {
		return nil
	}
	e := entry{At: now, Do: what}
	if what == doCapture {
		e.MaxLSN = s.maxLSN
	}
	return s.journal.write(e)
}

func (s *Simulation) act(ctx context.Context, what action) error {
	switch what {
	case doPrepare:
		return s.prepare(ctx)
	case doStep:
		s.Steps++
		for _, t := range s.tasks {
			if err := t.Step(ctx); err != nil {
				return err
			}
		}
		return nil
	case doCapture:
		return s.capture(ctx)
	}
	return fmt.Errorf("reading the state file: it asks for %q", what)
}

// capture has everything captured and notes max_lsn.
func (s *Simulation) capture(ctx context.Context) error {
	if err := s.Server.Capture(ctx); err != nil {
		return err
	}
	if cdc := s.Server.DefaultDB().CDC(); cdc.Enabled() {
		if lsn, ok := cdc.MaxLSN(); ok {
			s.maxLSN = lsn.String()
		}
	}
	return nil
}

// prepare runs the script and makes the workloads' tables.
func (s *Simulation) prepare(ctx context.Context) error {
	for n, batch := range batches(s.cfg.Script) {
		if err := s.Server.Exec(ctx, batch); err != nil {
			return fmt.Errorf("running batch %d of the script: %w", n+1, err)
		}
	}
	for _, name := range s.cfg.Workloads {
		task, err := s.make(ctx, name)
		if err != nil {
			return err
		}
		if task != nil {
			s.tasks = append(s.tasks, task)
		}
	}
	return nil
}

// make makes a workload; nil for one that is done with that.
func (s *Simulation) make(ctx context.Context, name string) (stepper, error) {
	switch name {
	case "orders":
		return workload.NewOrders(ctx, s.Server, workload.OrdersConfig{Seed: s.cfg.Seed, Start: s.start})
	case "key_moves":
		return workload.NewKeyMoves(ctx, s.Server, s.cfg.Seed)
	case "ddl":
		return workload.NewDDL(ctx, s.Server)
	case "idle":
		return idler{s.Server}, nil
	case "types":
		_, err := workload.WriteTypes(ctx, s.Server)
		return nil, err
	}
	return nil, workload.HugeTransaction(ctx, s.Server, s.cfg.HugeRows)
}

// idler adds an idle entry to the LSN time mapping in every step.
type idler struct{ server *sqlserversim.Server }

// Step adds the entry.
func (i idler) Step(ctx context.Context) error { return i.server.Idle(ctx) }

// batches parts a script at its lines of GO.
func batches(script string) []string {
	var out []string
	var batch strings.Builder
	flush := func() {
		if strings.TrimSpace(batch.String()) != "" {
			out = append(out, batch.String())
		}
		batch.Reset()
	}
	for line := range strings.Lines(script) {
		if strings.EqualFold(strings.TrimSpace(line), "GO") {
			flush()
			continue
		}
		batch.WriteString(line)
	}
	flush()
	return out
}

// Run makes steps and captures until ctx ends, and returns nil then.
func (s *Simulation) Run(ctx context.Context) error {
	captures := time.NewTicker(s.cfg.CaptureInterval)
	defer captures.Stop()
	var steps <-chan time.Time
	if s.cfg.Every > 0 && len(s.tasks) > 0 {
		ticker := time.NewTicker(s.cfg.Every)
		defer ticker.Stop()
		steps = ticker.C
	}
	for {
		what := doCapture
		select {
		case <-ctx.Done():
			return nil
		case <-captures.C:
		case <-steps:
			what = doStep
		}
		// A step that has begun is finished, so that the file and the server agree.
		if err := s.do(context.WithoutCancel(ctx), what); err != nil {
			return fmt.Errorf("running the workloads: %w", err)
		}
	}
}

// Close ends the server and the file.
func (s *Simulation) Close() error {
	var err error
	if s.journal != nil {
		err = s.journal.close()
	}
	return errors.Join(err, s.Server.Close())
}

var _ engine.Clock = (*stepClock)(nil)
