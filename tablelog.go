package mssqlcdc

import "encoding/json"

// What the log of a bronze table says beside its rows. The libraries that write it and
// those that read it do not import each other, so its names are here. The names of
// transactions follow the application id of the writer.
const (
	// TxnPositionHi and TxnPositionLo hold the position: the commit LSN up to which the
	// table has every change, in two halves; see [LSN.Parts].
	TxnPositionHi = "#lsn.hi"
	TxnPositionLo = "#lsn.lo"

	// TxnSnapshotHi and TxnSnapshotLo hold the S of the newest snapshot of which the table
	// has every chunk, in two halves, and TxnSnapshotTime the commit time at which the first
	// of them was read, in microseconds since 1970 (UTC), 0 if that is unknown. They come
	// with the last chunk's commit; TxnSnapshotBegun keeps that time until then.
	TxnSnapshotHi    = "#snapshot.hi"
	TxnSnapshotLo    = "#snapshot.lo"
	TxnSnapshotTime  = "#snapshot.time"
	TxnSnapshotBegun = "#snapshot.begun"

	// PropKeyColumns are the columns of the unique index that change data capture uses,
	// a JSON list of names; see [EncodeKeyColumns]. Absent: the source has none.
	PropKeyColumns = "rpconnect.key_columns"
	// MetaSourceColumn is the metadata of a column of bronze that holds the values of a
	// column of another name: the name that they have in the source. The source column
	// changed its type, and went on in this one.
	MetaSourceColumn = "rpconnect.source_column"
	// PropSourceTable and PropSourceDatabase name the source.
	PropSourceTable    = "rpconnect.source_table"
	PropSourceDatabase = "rpconnect.source_database"
)

// EncodeKeyColumns is the value of [PropKeyColumns].
func EncodeKeyColumns(names []string) string {
	text, err := json.Marshal(names)
	if err != nil {
		return "[]" // strings always have a JSON form
	}
	return string(text)
}

// DecodeKeyColumns is the inverse of EncodeKeyColumns.
func DecodeKeyColumns(text string) ([]string, error) {
	var names []string
	err := json.Unmarshal([]byte(text), &names)
	return names, err
}
