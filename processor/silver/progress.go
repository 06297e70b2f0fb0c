package silver

import (
	"fmt"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// progress is how far bronze is in the table. It lies in transactions of the table's
// log, in the commit of the rows that it speaks of.
type progress struct {
	applied  mssqlcdc.LSN // highest commit LSN among the changes that are applied
	snapshot mssqlcdc.LSN // newest snapshot that is complete and applied whole
	open     mssqlcdc.LSN // newest snapshot with rows that is not; zero for none
	wave     int64        // last chunk applied of the newer one of both, -1 for none or a snapshot without chunks
	bronze   int64        // version of bronze that was applied last, -1 for none
	sequence int64        // number of the last commit
	any      bool         // there is progress at all
}

// seen is the newest snapshot with rows in the table.
func (p progress) seen() mssqlcdc.LSN {
	if p.snapshot.Less(p.open) {
		return p.open
	}
	return p.snapshot
}

// same tells whether two are equal but for the number of the commit and the version.
func (p progress) same(other progress) bool {
	return p.applied == other.applied && p.snapshot == other.snapshot && p.open == other.open && p.wave == other.wave && p.any == other.any
}

// Transactions of a silver table's log that say how far it is. Each is an LSN, in two halves: its name with [TxnHi] and with [TxnLo]; an LSN
// of zero is none.
const (
	TxnApplied  = txnApp + "#applied"  // highest commit LSN among the changes that are applied
	TxnSnapshot = txnApp + "#snapshot" // newest snapshot that is complete and applied whole
	TxnOpen     = txnApp + "#open"     // newest snapshot with rows in the table that is not complete
)

// Ends of the names of the two transactions that an LSN is in; see [mssqlcdc.LSN.Parts].
const (
	TxnHi = ".hi"
	TxnLo = ".lo"
)

// The other transactions. txnSequence is fenced by its number, so that of two calls that work
// on the same version one stops; all the rest are read only.
const (
	txnApp      = "rpconnect.apply_changes"
	txnSequence = txnApp + "#sequence"
	txnWave     = txnApp + "#wave"
	txnBronze   = txnApp + "#bronze"
)

func readProgress(s *delta.Snapshot) (p progress, err error) {
	p.wave, p.bronze = -1, -1
	p.sequence, _ = s.AppVersion(txnSequence)
	if p.bronze, p.any = s.AppVersion(txnBronze); !p.any {
		p.bronze = -1
		return p, nil
	}
	p.wave, _ = s.AppVersion(txnWave)
	for name, to := range map[string]*mssqlcdc.LSN{TxnApplied: &p.applied, TxnSnapshot: &p.snapshot, TxnOpen: &p.open} {
		hi, _ := s.AppVersion(name + TxnHi)
		lo, _ := s.AppVersion(name + TxnLo)
		if *to, err = mssqlcdc.LSNFromParts(hi, lo); err != nil {
			return p, fmt.Errorf("reading transaction %s: %w", name, err)
		}
	}
	return p, nil
}

func (p progress) marks() []delta.Txn {
	marks := []delta.Txn{{AppID: txnBronze, Version: p.bronze}, {AppID: txnWave, Version: p.wave}}
	for _, one := range []struct {
		name string
		lsn  mssqlcdc.LSN
	}{{TxnApplied, p.applied}, {TxnSnapshot, p.snapshot}, {TxnOpen, p.open}} {
		hi, lo := one.lsn.Parts()
		marks = append(marks, delta.Txn{AppID: one.name + TxnHi, Version: hi}, delta.Txn{AppID: one.name + TxnLo, Version: lo})
	}
	return marks
}

// told is what bronze's log says beside the rows.
type told struct {
	position     mssqlcdc.LSN // end of what it holds; zero if it does not say
	snapshot     mssqlcdc.LSN // newest snapshot that it holds whole
	snapshotTime int64        // when its first chunk was read, microseconds since 1970 UTC, 0: not known
	begun        int64        // the same of the snapshot that began last
}

// readTold reads the transactions of all writers that bronze had.
func readTold(s *delta.Snapshot) (t told, err error) {
	for txn := range s.AppVersions() {
		if app, ok := strings.CutSuffix(txn.AppID, mssqlcdc.TxnPositionHi); ok {
			lsn, err := pair(s, app, mssqlcdc.TxnPositionHi, mssqlcdc.TxnPositionLo)
			if err != nil {
				return t, err
			}
			if t.position.Less(lsn) {
				t.position = lsn
			}
		}
		if app, ok := strings.CutSuffix(txn.AppID, mssqlcdc.TxnSnapshotHi); ok {
			lsn, err := pair(s, app, mssqlcdc.TxnSnapshotHi, mssqlcdc.TxnSnapshotLo)
			if err != nil {
				return t, err
			}
			if t.snapshot.Less(lsn) {
				t.snapshot = lsn
				t.snapshotTime, _ = s.AppVersion(app + mssqlcdc.TxnSnapshotTime)
			}
		}
		if strings.HasSuffix(txn.AppID, mssqlcdc.TxnSnapshotBegun) {
			t.begun = max(t.begun, txn.Version)
		}
	}
	return t, nil
}

func pair(s *delta.Snapshot, app, high, low string) (mssqlcdc.LSN, error) {
	hi, _ := s.AppVersion(app + high)
	lo, _ := s.AppVersion(app + low)
	lsn, err := mssqlcdc.LSNFromParts(hi, lo)
	if err != nil {
		return lsn, fmt.Errorf("reading transaction %s: %w", app+high, err)
	}
	return lsn, nil
}
