package bronze

import (
	"fmt"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// The suffixes of the application ids whose transactions hold the position.
const (
	suffixHi = mssqlcdc.TxnPositionHi
	suffixLo = mssqlcdc.TxnPositionLo
)

// Position is the commit LSN up to which a table holds what the application wrote,
// and whether the application has one there.
func Position(s *delta.Snapshot, appID string) (position mssqlcdc.LSN, ok bool, err error) {
	hi, okHi := s.AppVersion(appID + suffixHi)
	lo, okLo := s.AppVersion(appID + suffixLo)
	if !okHi && !okLo {
		return mssqlcdc.LSN{}, false, nil
	}
	if okHi != okLo {
		return mssqlcdc.LSN{}, false, fmt.Errorf("the position of application id %q is torn: only one of the transactions %s and %s is in the log",
			appID, appID+suffixHi, appID+suffixLo)
	}
	position, err = mssqlcdc.LSNFromParts(hi, lo)
	if err != nil {
		return mssqlcdc.LSN{}, false, fmt.Errorf("reading the position of application id %q: %w", appID, err)
	}
	return position, true, nil
}

// marks are the transactions that hold a position.
func marks(appID string, position mssqlcdc.LSN) []delta.Txn {
	hi, lo := position.Parts()
	return []delta.Txn{{AppID: appID + suffixHi, Version: hi}, {AppID: appID + suffixLo, Version: lo}}
}

// Sink names an application and a table for [mssqlcdc.RecordBatch.Mark]: one
// application id may write several tables.
func Sink(appID, target string) string { return appID + "@" + target }
