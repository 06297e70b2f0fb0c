package maintain

// WithMaxPlanned bounds the files of one plan.
func (o OptimizeOptions) WithMaxPlanned(n int) OptimizeOptions {
	o.maxPlanned = n
	return o
}

// Tiered leaves out large files as Auto does.
func (o OptimizeOptions) Tiered() OptimizeOptions {
	o.tiered = true
	return o
}

// Exported for tests.
const (
	TagInsertionTime = tagInsertionTime
	VacuumApp        = vacuumApp
)

// Tiers returns the sizes that are packed of those given.
func Tiers(sizes []int64, least int) []int64 {
	files := make([]file, len(sizes))
	for i, size := range sizes {
		files[i].add.Size = size
	}
	var out []int64
	for _, f := range tiers(files, least) {
		out = append(out, f.add.Size)
	}
	return out
}
