package delta

import (
	"context"
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
)

// ChecksumError is what Snapshot.Verify returns.
type ChecksumError = replay.ChecksumError

// Verify compares the snapshot with the checksum file that its writer may have left
// beside the commit: protocol, metadata, transactions, domains, the number of files
// and their size. It lists all files. verified is false if there is no such file, or
// none that can be read. A difference is a *ChecksumError: a part of the log was lost
// or changed, or the file's writer was wrong, and nothing should be deleted or claimed
// because of this snapshot before somebody has looked. Opening and reading a table do
// not verify: as the engines that write these files do, they take the log's word.
func (s *Snapshot) Verify(ctx context.Context) (verified bool, err error) {
	sum, err := replay.ReadChecksum(ctx, s.st, s.Version())
	if err == nil && sum != nil {
		err = s.compare(ctx, sum)
	}
	if err != nil {
		return false, fmt.Errorf("verifying table %s: %w", s.st.URL(), err)
	}
	return sum != nil, nil
}

func (s *Snapshot) compare(ctx context.Context, sum *replay.Checksum) error {
	if err := sum.CheckState(s.state); err != nil {
		return err
	}
	var files, bytes int64
	for add, err := range s.Files(ctx) {
		if err != nil {
			return err
		}
		files, bytes = files+1, bytes+add.Size
	}
	return sum.CheckFiles(s.Version(), files, bytes)
}
