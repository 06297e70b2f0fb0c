package data

// WithLimits makes pages and dictionaries so small that few rows fill many.
// However few, several goroutines encode them.
func WithLimits(o WriterOptions, pageRows, pageBytes, dictBytes, sample int) WriterOptions {
	o.limits = limits{pageRows: pageRows, pageBytes: pageBytes, dictBytes: dictBytes, sample: sample}
	return o
}

// ReadFileWith is ReadFile with an allocator. Files with delta encodings leak in the
// Parquet library.
var ReadFileWith = readFile
