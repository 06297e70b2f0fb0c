package merge

import (
	"context"
	"errors"
	"slices"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// maxEnable is how often in a row other writers may change the table's metadata while deletion
// vectors are being turned on.
const maxEnable = 5

// enableVectors returns a snapshot of the table in which deletion vectors may be written.
func enableVectors(ctx context.Context, t *delta.Table, may bool) (*delta.Snapshot, error) {
	for try := 0; ; try++ {
		s := t.Snapshot()
		if isTrue(s, delta.PropDeletionVectors) && slices.Contains(s.Protocol().WriterFeatures, delta.FeatureDeletionVectors) {
			return s, nil
		}
		if !may {
			return nil, &delta.FeatureError{Name: delta.FeatureDeletionVectors, Op: "mark rows as deleted in",
				Why: "the table property " + delta.PropDeletionVectors + " is not true; set it, or merge by copy on write"}
		}
		metadata := s.Metadata()
		if metadata.Configuration == nil {
			metadata.Configuration = map[string]string{}
		}
		metadata.Configuration[delta.PropDeletionVectors] = "true"
		_, err := t.Commit(ctx, delta.Change{
			Operation:           delta.OpSetProperties,
			OperationParameters: map[string]string{"properties": jsonText(map[string]string{delta.PropDeletionVectors: "true"})},
			Metadata:            &metadata, ReadVersion: s.Version(),
		})
		var conflict *delta.ConflictError
		if err != nil && (!errors.As(err, &conflict) || try >= maxEnable) {
			return nil, err
		}
		if _, err := t.Refresh(ctx); err != nil {
			return nil, err
		}
	}
}
