package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
)

const afFieldDirectory = "directory"

// maxFileName is what common file systems allow for one name, in bytes, less
// room for the suffix of a temporary file.
const maxFileName = 255 - 32

// RegisterAtomicFile adds the atomic_file cache to an environment.
func RegisterAtomicFile(env *service.Environment) error {
	return env.RegisterCache("atomic_file", atomicFileSpec(),
		func(conf *service.ParsedConfig, _ *service.Resources) (service.Cache, error) {
			directory, err := conf.FieldString(afFieldDirectory)
			if err != nil {
				return nil, err
			}
			return NewAtomicFile(directory)
		})
}

func atomicFileSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Stable().
		Summary("Stores each value in a file of its own whose content is replaced at once and survives a power cut.").
		Description(`
A write goes to a temporary file, which is synced and then renamed over the old one, and the folder is synced. So a reader,
or the next start after a crash, finds the old value or the new one and never a part of either. Use it for the resume position of the `+"`mssql_cdc`"+` input.
Time to live is not supported. Keys become file names by percent-encoding; a key must stay below 223 bytes in that form.`).
		Field(service.NewStringField(afFieldDirectory).
			Description("The folder that holds the files. It is created if it does not exist. Two processes must not share it.").
			Example("./state")).
		Example("Resume position on local disk", "The input keeps its position in the folder `state`.", `
cache_resources:
  - label: position
    atomic_file:
      directory: ./state
`)
}

// AtomicFile is a cache of one file per key. It is safe for concurrent use
// within one process; of two concurrent writes of one key one wins whole.
type AtomicFile struct{ directory string }

// NewAtomicFile makes the folder if it does not exist and removes temporary files
// that a crash left in it.
func NewAtomicFile(directory string) (*AtomicFile, error) {
	if directory == "" {
		return nil, errors.New("atomic_file: directory must not be empty")
	}
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return nil, fmt.Errorf("atomic_file: creating the folder: %w", err)
	}
	leftovers, err := filepath.Glob(filepath.Join(escapeGlob(directory), tempPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("atomic_file: listing %s: %w", directory, err)
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("atomic_file: removing a left-over file: %w", err)
		}
	}
	return &AtomicFile{directory: directory}, nil
}

// tempPrefix cannot open a key's file name: '~' is not left alone by escapeKey.
const tempPrefix = "~tmp-"

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// escapeKey makes a file name that is unique for the key, also where names
// ignore case: the file system must not fold two keys, so upper-case letters
// are encoded as well.
func escapeKey(key string) string {
	var b strings.Builder
	for _, c := range []byte(url.PathEscape(key)) {
		switch {
		case c >= 'A' && c <= 'Z', c == '~', c == '*', c == ':':
			fmt.Fprintf(&b, "%%%02x", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + ".v"
}

func (a *AtomicFile) path(key string) (string, error) {
	name := escapeKey(key)
	if len(name) > maxFileName {
		return "", fmt.Errorf("atomic_file: key %q makes a file name of %d bytes, at most %d are possible", key, len(name), maxFileName)
	}
	return filepath.Join(a.directory, name), nil
}

// Get reads a value; service.ErrKeyNotFound if there is none.
func (a *AtomicFile) Get(_ context.Context, key string) ([]byte, error) {
	path, err := a.path(key)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, service.ErrKeyNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("atomic_file: reading a value: %w", err)
	}
	return raw, nil
}

// Set replaces a value. It is on disk when Set returns. A time to live is
// ignored.
func (a *AtomicFile) Set(_ context.Context, key string, value []byte, _ *time.Duration) error {
	path, err := a.path(key)
	if err != nil {
		return err
	}
	temp, err := a.writeTemp(value)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(fmt.Errorf("atomic_file: replacing a value: %w", err), os.Remove(temp))
	}
	return a.syncDirectory()
}

// Add stores a value unless the key exists: service.ErrKeyAlreadyExists.
func (a *AtomicFile) Add(_ context.Context, key string, value []byte, _ *time.Duration) error {
	path, err := a.path(key)
	if err != nil {
		return err
	}
	temp, err := a.writeTemp(value)
	if err != nil {
		return err
	}
	linkErr := os.Link(temp, path)
	if err := os.Remove(temp); err != nil {
		return fmt.Errorf("atomic_file: removing a temporary file: %w", err)
	}
	if errors.Is(linkErr, fs.ErrExist) {
		return service.ErrKeyAlreadyExists
	}
	if linkErr != nil {
		return fmt.Errorf("atomic_file: adding a value: %w", linkErr)
	}
	return a.syncDirectory()
}

// Delete removes a value. A key that does not exist is no error.
func (a *AtomicFile) Delete(_ context.Context, key string) error {
	path, err := a.path(key)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("atomic_file: deleting a value: %w", err)
	}
	return a.syncDirectory()
}

// Close does nothing: no file stays open.
func (a *AtomicFile) Close(context.Context) error { return nil }

func (a *AtomicFile) writeTemp(value []byte) (string, error) {
	file, err := os.CreateTemp(a.directory, tempPrefix+"*")
	if err != nil {
		return "", fmt.Errorf("atomic_file: creating a temporary file: %w", err)
	}
	_, writeErr := file.Write(value)
	if err := errors.Join(writeErr, file.Sync(), file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("atomic_file: writing a temporary file: %w", err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// syncDirectory makes a rename durable: on Linux the name is only safe once the
// folder is synced.
func (a *AtomicFile) syncDirectory() error {
	dir, err := os.Open(a.directory)
	if err != nil {
		return fmt.Errorf("atomic_file: opening the folder: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("atomic_file: syncing the folder: %w", err)
	}
	return nil
}
