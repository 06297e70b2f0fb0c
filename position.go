package mssqlcdc

import (
	"cmp"
	"fmt"
)

// Position is where one change row stands in the order of all changes of its
// capture instance. Its order is defined here and nowhere else: commit LSN,
// command id, seqval, operation. Microsoft asks for __$command_id and not
// __$seqval as the order within a transaction (KB 3030352); an update's two
// rows share both and differ in the operation.
//
// The identity of a change across two capture instances is (StartLSN, SeqVal,
// Operation): command ids are numbered per instance.
type Position struct {
	StartLSN  LSN       `json:"start_lsn"`  // commit LSN of the transaction
	CommandID int32     `json:"command_id"` // order of the command in the transaction; 0 if the change table has none
	SeqVal    LSN       `json:"seqval"`     // LSN of the row's own log record
	Operation Operation `json:"operation"`
}

// Compare orders positions: -1, 0 or +1.
func (p Position) Compare(other Position) int {
	return cmp.Or(
		p.StartLSN.Compare(other.StartLSN),
		cmp.Compare(p.CommandID, other.CommandID),
		p.SeqVal.Compare(other.SeqVal),
		cmp.Compare(p.Operation, other.Operation),
	)
}

// String is for messages: the parts joined with slashes.
func (p Position) String() string {
	return fmt.Sprintf("%s/%d/%s/%d", p.StartLSN, p.CommandID, p.SeqVal, p.Operation)
}

// PositionColumns lists the columns of a change table that sort rows by
// Position, most significant first. Statements take their ORDER BY from here.
// Without command ids (change tables made before KB 3030352 and never
// re-enabled) the second column is left out.
func PositionColumns(withCommandID bool) []string {
	if !withCommandID {
		return []string{"__$start_lsn", "__$seqval", "__$operation"}
	}
	return []string{"__$start_lsn", "__$command_id", "__$seqval", "__$operation"}
}
