package reconcile

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// pile collects entries of one fixed width, each beginning with a digest, by partition. Partitions are filled in blocks, which
// stay in memory while the shared allowance lasts and go to a file after that. The file has no name (where the system allows
// that), so nothing is left of it whatever happens. It is safe for concurrent use until the first load.
type pile struct {
	width int
	block int // bytes of a partition that are collected before they are kept or spilled
	dir   string
	room  *atomic.Int64 // bytes that may still be kept in memory, shared by all piles

	mu    sync.Mutex
	parts []partition
	file  *os.File
	end   int64 // of the file
}

// partition is the entries whose keys begin alike.
type partition struct {
	open    []byte   // the block being filled
	kept    [][]byte // full blocks in memory
	spilled []extent
}

type extent struct{ offset, size int64 }

// The blocks of a pile take at most a quarter of the memory that there is, within these bounds.
const (
	leastBlock = 64
	mostBlock  = 16 << 10
)

func newPile(width, partitions int, dir string, room *atomic.Int64) *pile {
	block := min(mostBlock, max(leastBlock, room.Load()/int64(4*partitions)))
	return &pile{width: width, block: int(block), dir: dir, room: room, parts: make([]partition, partitions)}
}

// partitionOf is the partition of a key, of a number that is a power of two up to 65,536.
func partitionOf(key []byte, partitions int) int {
	return (int(key[0])<<8 | int(key[1])) & (partitions - 1)
}

// add adds entries that lie one behind the other.
func (p *pile) add(entries []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; len(entries) > 0; entries = entries[p.width:] {
		entry := entries[:p.width]
		part := &p.parts[partitionOf(entry, len(p.parts))]
		part.open = append(part.open, entry...)
		if len(part.open) < p.block {
			continue
		}
		if err := p.put(part); err != nil {
			return err
		}
	}
	return nil
}

// put keeps or spills the full block of a partition.
func (p *pile) put(part *partition) error {
	size := int64(len(part.open))
	if p.room.Add(-size) >= 0 {
		part.kept, part.open = append(part.kept, part.open), nil
		return nil
	}
	p.room.Add(size)
	if err := p.create(); err != nil {
		return err
	}
	if _, err := p.file.WriteAt(part.open, p.end); err != nil {
		return fmt.Errorf("spilling %d bytes to %s: %w", size, p.dir, err)
	}
	part.spilled, part.open = append(part.spilled, extent{p.end, size}), part.open[:0]
	p.end += size
	return nil
}

func (p *pile) create() error {
	if p.file != nil {
		return nil
	}
	file, err := os.CreateTemp(p.dir, "reconcile-*.spill")
	if err != nil {
		return fmt.Errorf("creating a file to spill to: %w", err)
	}
	p.file = file
	// Where the system refuses to remove an open file, close removes it.
	if err := os.Remove(file.Name()); err != nil && !errors.Is(err, os.ErrPermission) {
		return errors.Join(fmt.Errorf("removing the name of the spill file: %w", err), p.close())
	}
	return nil
}

// load gives all entries of a partition, in no order. They belong to the caller.
func (p *pile) load(number int) ([]byte, error) {
	part := &p.parts[number]
	size := len(part.open)
	for _, block := range part.kept {
		size += len(block)
	}
	for _, e := range part.spilled {
		size += int(e.size)
	}
	all := make([]byte, 0, size)
	for _, block := range part.kept {
		all = append(all, block...)
	}
	for _, e := range part.spilled {
		at := len(all)
		all = all[:at+int(e.size)]
		if _, err := p.file.ReadAt(all[at:], e.offset); err != nil {
			return nil, fmt.Errorf("reading spilled entries back: %w", err)
		}
	}
	return append(all, part.open...), nil
}

// close gives the memory and the file back.
func (p *pile) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts = nil
	if p.file == nil {
		return nil
	}
	file := p.file
	p.file = nil
	err := file.Close()
	if removing := os.Remove(file.Name()); removing != nil && !errors.Is(removing, os.ErrNotExist) {
		err = errors.Join(err, removing)
	}
	if err != nil {
		return fmt.Errorf("closing the spill file: %w", err)
	}
	return nil
}
