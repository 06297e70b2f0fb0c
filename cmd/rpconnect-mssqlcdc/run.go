package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/cmd/rpconnect-mssqlcdc/heap"
)

// programName is how the program calls itself.
const programName = "rpconnect-mssqlcdc"

// fatalGrace is how long a stream may take to end by itself after a fatal
// condition, before the program asks it to as a terminal would.
const fatalGrace = 3 * time.Second

// Exit codes of the program. is-final adds its own.
const (
	exitOK      = 0
	exitFailure = 1
	exitSignal  = 130 // a second signal
)

// exitError is an error of a subcommand with its exit code. Subcommands never
// return the CLI library's own exit error: the library would exit by itself.
type exitError struct {
	code int
	err  error // nil: the command has printed its answer
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// run is the program. It returns the exit code and prints the error, if any, as
// the last line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	tuneMemory()
	state := mssqlcdc.NewRunState()
	stopWatching := watch(state, stderr)
	defer stopWatching()

	env := service.GlobalEnvironment()
	if err := registerPrometheus(env); err != nil {
		return fail(stderr, err)
	}
	version, date := buildVersion()
	code, err := service.RunCLIToCode(ctx,
		service.CLIOptSetArgs(args...),
		service.CLIOptSetVersion(version, date),
		service.CLIOptSetBinaryName(programName),
		service.CLIOptSetProductName(programName),
		service.CLIOptSetMainSchemaFrom(func() *service.ConfigSchema { return mainSchema(env, version, date) }),
		service.CLIOptSetEnvironment(env),
		service.CLIOptOnConfigParse(func(conf *service.ParsedConfig) error {
			conf.Resources().GetOrSetGeneric(mssqlcdc.RunStateKey(""), state)
			return nil
		}),
		service.CLIOptAddCommand(demoCommand(stdout, stderr)),
		service.CLIOptAddCommand(simulateCommand(stdout)),
		service.CLIOptAddCommand(isFinalCommand(stdout)),
		service.CLIOptAddCommand(deltaCommand(stdout)),
		service.CLIOptAddCommand(doctorCommand(stdout)),
		service.CLIOptAddCommand(reconcileCommand(stdout, stderr)),
		service.CLIOptAddCommand(statusCommand(stdout)),
		service.CLIOptAddCommand(seedCommand(stdout, stderr)),
	)
	return exitCode(stderr, code, err, state)
}

// exitCode joins what the engine says with what the plugins say: the engine ends
// with 0 also when nothing was written.
func exitCode(stderr io.Writer, code int, err error, state *mssqlcdc.RunState) int {
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			fail(stderr, exit.err)
		}
		return exit.code
	}
	if err = errors.Join(hideSecrets(err), state.Err()); err != nil {
		return fail(stderr, err)
	}
	return code
}

func fail(stderr io.Writer, err error) int {
	// One line, also for several errors: the last line of the output is what people see.
	fmt.Fprintf(stderr, "%s: %s\n", programName, strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitFailure
}

// hideSecrets replaces the errors of the engine that print a secret: it cannot hide
// a value that YAML reads as a number.
func hideSecrets(err error) error {
	if err == nil {
		return nil
	}
	for _, text := range []string{"failed to generate sanitised config", "echo error"} {
		if strings.Contains(err.Error(), text) {
			return errors.New(`a secret in the configuration is a number: put it in quotes, for example password: "${PASSWORD}"`)
		}
	}
	return err
}

// watch connects signals and the run state: the first signal tells the plugins to
// stop (the engine hears it, too), a second one ends the program at once, and a
// fatal condition that has not ended the stream after a while is turned into a
// signal.
func watch(state *mssqlcdc.RunState, stderr io.Writer) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		fatal := state.Failed()
		var grace <-chan time.Time
		stopping := false
		for {
			select {
			case <-done:
				return
			case <-fatal:
				fatal, grace = nil, time.After(fatalGrace)
			case <-grace:
				grace = nil
				if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
					fmt.Fprintf(stderr, "%s: ending the stream: %v\n", programName, err)
					os.Exit(exitFailure)
				}
			case <-signals:
				if stopping {
					fmt.Fprintf(stderr, "%s: second signal, ending at once; what was not acknowledged is read again at the next start\n", programName)
					os.Exit(exitSignal)
				}
				stopping = true
				state.Stop()
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-finished
	}
}

// tuneMemory keeps the heap near what is in use: half of it more, or so many bytes
// that the collector rests between two rounds where little is in use.
func tuneMemory() {
	const least = 24 << 20
	if os.Getenv("GOGC") == "" {
		heap.Tune(50, least)
	}
}

// buildVersion reads what the toolchain recorded.
func buildVersion() (version, date string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", "unknown"
	}
	version = info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.time" {
			date = setting.Value
		}
	}
	return version, date
}
