//go:build unix

package file

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// The child process of TestKill: it kills itself in the middle of writing.
const (
	envRoot = "FILE_STORE_TEST_ROOT"
	envStep = "FILE_STORE_TEST_STEP"
	envCall = "FILE_STORE_TEST_CALL"
)

func writes() map[string]func(context.Context, *Store, string, []byte) error {
	return map[string]func(context.Context, *Store, string, []byte) error{
		"PutIfAbsent": func(ctx context.Context, s *Store, path string, data []byte) error {
			return s.PutIfAbsent(ctx, path, data)
		},
		"Put": func(ctx context.Context, s *Store, path string, data []byte) error { return s.Put(ctx, path, data) },
		"Create": func(ctx context.Context, s *Store, path string, data []byte) error {
			w, err := s.Create(ctx, path)
			if err != nil {
				return err
			}
			if _, err := w.Write(data); err != nil {
				return errors.Join(err, w.Abort())
			}
			return w.Close()
		},
	}
}

func TestChildThatKillsItself(t *testing.T) {
	root := os.Getenv(envRoot)
	if root == "" {
		t.Skip("only as the child of TestKill")
	}
	s, err := New(root)
	require.NoError(t, err)
	s.step = func(name string) error {
		if name == os.Getenv(envStep) {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}
	require.NoError(t, writes()[os.Getenv(envCall)](t.Context(), s, "_delta_log/1.json", []byte("from the child")))
	t.Fatal("it should be dead")
}

// kill -9 between the steps of writing leaves all of an object or nothing of it,
// and nothing in the way of the next writer.
func TestKill(t *testing.T) {
	t.Parallel()
	for call := range writes() {
		for _, step := range []string{stepWritten, stepLinked, stepUnlinked, stepDone} {
			if step == stepUnlinked && call != "PutIfAbsent" {
				continue
			}
			t.Run(call+" "+step, func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				cmd := exec.Command(os.Args[0], "-test.run=^TestChildThatKillsItself$")
				cmd.Env = append(os.Environ(), envRoot+"="+root, envStep+"="+step, envCall+"="+call)
				out, err := cmd.CombinedOutput()
				require.Error(t, err)
				require.Contains(t, err.Error(), "killed", "%s", out)

				s, err := New(root)
				require.NoError(t, err)
				got, err := s.Get(t.Context(), "_delta_log/1.json")
				visible := step != stepWritten
				if visible {
					require.NoError(t, err)
					require.Equal(t, "from the child", string(got))
				} else {
					require.ErrorIs(t, err, store.ErrNotFound)
				}
				var listed []string
				for info, err := range s.List(t.Context(), "", "") {
					require.NoError(t, err)
					listed = append(listed, info.Path)
				}
				require.Equal(t, visible, len(listed) == 1)

				err = s.PutIfAbsent(t.Context(), "_delta_log/1.json", []byte("from the next"))
				if visible {
					require.ErrorIs(t, err, store.ErrExists)
				} else {
					require.NoError(t, err)
				}

				n, err := s.RemoveTemp(t.Context(), time.Hour)
				require.NoError(t, err)
				require.Zero(t, n, "a young one may have a living writer")
				left := temps(t, root)
				n, err = s.RemoveTemp(t.Context(), 0)
				require.NoError(t, err)
				require.Equal(t, left, n)
				require.Zero(t, temps(t, root))
			})
		}
	}
}

func temps(t *testing.T, root string) int {
	t.Helper()
	n := 0
	require.NoError(t, filepath.WalkDir(root, func(_ string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), tempPrefix) {
			n++
		}
		return err
	}))
	return n
}

// A failure at a step is an error, and says whether anything can have happened.
func TestFailingSteps(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for call, write := range writes() {
		for _, step := range []string{stepWritten, stepLinked, stepDone} {
			t.Run(call+" "+step, func(t *testing.T) {
				t.Parallel()
				s, err := New(t.TempDir())
				require.NoError(t, err)
				s.step = func(name string) error {
					if name == step {
						return broken
					}
					return nil
				}
				err = write(t.Context(), s, "x/y", []byte("data"))
				require.ErrorIs(t, err, broken)
				require.Zero(t, temps(t, s.root))
				_, getErr := s.Get(t.Context(), "x/y")
				if step == stepWritten {
					require.ErrorIs(t, getErr, store.ErrNotFound)
				} else {
					require.NoError(t, getErr)
				}
				if call == "PutIfAbsent" {
					require.Equal(t, step == stepWritten, errors.Is(err, store.ErrNotDone))
				}
			})
		}
	}
}

func TestUnwritableRootIsNotDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o666))
	s, err := New(filepath.Join(dir, "file", "table"))
	require.NoError(t, err)
	err = s.PutIfAbsent(t.Context(), "a", nil)
	require.ErrorIs(t, err, store.ErrNotDone)
	require.Error(t, s.Put(t.Context(), "a", nil))
	_, err = s.Get(t.Context(), "a")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// Other programs, under other users, read tables too.
func TestModeIsTheUmasks(t *testing.T) {
	t.Parallel()
	s, err := New(t.TempDir())
	require.NoError(t, err)
	reference := filepath.Join(t.TempDir(), "reference")
	require.NoError(t, os.WriteFile(reference, nil, 0o666))
	want, err := os.Stat(reference)
	require.NoError(t, err)
	for call, write := range writes() {
		require.NoError(t, write(t.Context(), s, call, nil))
		got, err := os.Stat(filepath.Join(s.root, call))
		require.NoError(t, err)
		require.Equal(t, want.Mode(), got.Mode(), call)
	}
}

func TestListShowsFilesOnly(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s, err := New(root)
	require.NoError(t, err)
	require.NoError(t, s.Put(t.Context(), "real/a", []byte("1")))
	require.NoError(t, os.Symlink(filepath.Join(root, "real", "a"), filepath.Join(root, "link")))
	require.NoError(t, os.Symlink(root, filepath.Join(root, "loop")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(root, "dangling")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "real", tempPrefix+"x"), nil, 0o666))
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o666))
	var listed []string
	for info, err := range s.List(t.Context(), "", "") {
		require.NoError(t, err)
		listed = append(listed, info.Path)
	}
	require.Equal(t, []string{"link", "real/a"}, listed)
}

func BenchmarkPutIfAbsent(b *testing.B) {
	s, err := New(b.TempDir())
	require.NoError(b, err)
	data := make([]byte, 1400)
	for i := 0; b.Loop(); i++ {
		require.NoError(b, s.PutIfAbsent(b.Context(), "_delta_log/"+strings.Repeat("0", 10)+time.Duration(i).String(), data))
	}
}
