package data

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// encoder is what the columns of all open files of a Writer share: how pages are made,
// which does not change, and the lanes that make them.
type encoder struct {
	codec   compress.Compression
	level   int
	compact bool
	limits  limits
	lanes   []*lane

	// manyFiles says that several files are open at a time: then none keeps memory
	// beyond its row group.
	manyFiles bool
}

// lane is the memory that one goroutine needs to make pages. What a page becomes does not
// depend on the lane.
type lane struct {
	zstd    *zstd.Encoder  // for Zstd, because the library's keeps more memory
	other   compress.Codec // for all others but Uncompressed
	packed  []byte         // scratch of other
	scratch []byte
	delta   deltaEncoder
}

func newEncoder(o WriterOptions) (*encoder, error) {
	enc := &encoder{level: compress.DefaultCompressionLevel, limits: o.limits}
	switch o.Encodings {
	case "", Plain:
	case Compact:
		enc.compact = true
	default:
		return nil, fmt.Errorf("encodings %q: want %s or %s", o.Encodings, Plain, Compact)
	}
	switch o.Compression {
	case Zstd:
		enc.codec, enc.level = compress.Codecs.Zstd, 1
	case Snappy:
		enc.codec = compress.Codecs.Snappy
	case Gzip:
		enc.codec = compress.Codecs.Gzip
	case Uncompressed, none:
		enc.codec = compress.Codecs.Uncompressed
	default:
		return nil, fmt.Errorf("compression %q: want %s, %s, %s or %s", o.Compression, Zstd, Snappy, Gzip, Uncompressed)
	}
	for range lanesFor(o.Parallel) {
		l, err := newLane(enc.codec)
		if err != nil {
			return nil, err
		}
		enc.lanes = append(enc.lanes, l)
	}
	return enc, nil
}

// mostLanes bounds the default: beyond, there is hardly a reader that gives rows so fast.
const mostLanes = 4

// lanesFor is the number of lanes of an option.
func lanesFor(parallel int) int {
	if parallel <= 0 {
		return min(runtime.GOMAXPROCS(0), mostLanes)
	}
	return parallel
}

// newLane makes a lane. Codecs take their memory when they are used for the first time.
func newLane(codec compress.Compression) (l *lane, err error) {
	l = &lane{}
	switch codec {
	case compress.Codecs.Uncompressed:
	case compress.Codecs.Zstd:
		// Literals are always entropy coded: most pages of a table are integers, which have
		// few matches. It makes them a fifth smaller and costs no time. The window is twice
		// a page.
		l.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithAllLitEntropyCompression(true), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<19))
	default:
		l.other, err = compress.GetCodec(codec)
	}
	return l, err
}

// encodingOf is how values of a leaf are encoded that are not in a dictionary.
func (e *encoder) encodingOf(l *leaf) parquet.Encoding {
	switch {
	case !e.compact:
		return parquet.Encodings.Plain
	case l.phys == asInt32 || l.phys == asInt64:
		return parquet.Encodings.DeltaBinaryPacked
	case l.phys == asBytes:
		return parquet.Encodings.DeltaByteArray
	default:
		return parquet.Encodings.Plain
	}
}

// compress appends the compressed body of a page.
func (l *lane) compress(dst, body []byte) []byte {
	switch {
	case l.zstd != nil:
		return l.zstd.EncodeAll(body, dst)
	case l.other != nil:
		bound := l.other.CompressBound(int64(len(body)))
		return append(dst, l.other.Encode(resize(&l.packed, int(bound)), body)...)
	default:
		return append(dst, body...)
	}
}

// each calls do for 0, 1 … n-1, on as many lanes as are worth it for so many bytes of
// values, and waits. The error is that of the lowest number that has one; after an error
// some may be left out.
func (e *encoder) each(n, bytes int, do func(i int, l *lane) error) error {
	if len(e.lanes) == 1 || n < 2 || bytes < e.limits.parallelBytes {
		for i := range n {
			if err := do(i, e.lanes[0]); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, n)
	var next atomic.Int64
	run := func(l *lane) {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if errs[i] = do(i, l); errs[i] != nil {
				next.Store(int64(n))
			}
		}
	}
	var group sync.WaitGroup
	for _, l := range e.lanes[1:min(n, len(e.lanes))] {
		group.Go(func() { run(l) })
	}
	run(e.lanes[0])
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
