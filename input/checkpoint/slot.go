package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
)

// errTorn is a slot that does not hold one whole record.
var errTorn = errors.New("torn or foreign content")

// slotHeader opens every slot.
const slotHeader = "mssql_cdc"

// slot is one of the two records of a table.
//
//	mssql_cdc 1 <sequence> <crc> <state>
//
// One line of text: the format's version, a sequence number that grows by one
// with every write, the CRC-32C (8 hex digits) of everything else, and the state
// as JSON. The sum covers the sequence number, so that a slot torn between two
// writes never passes.
type slot struct {
	sequence uint64
	state    State
}

func (s slot) encode() ([]byte, error) {
	state, err := s.state.marshal()
	if err != nil {
		return nil, err
	}
	sequence := strconv.FormatUint(s.sequence, 10)
	return fmt.Appendf(nil, "%s 1 %s %08x %s", slotHeader, sequence, checksum(sequence, state), state), nil
}

func decodeSlot(raw []byte) (slot, error) {
	fields := bytes.SplitN(raw, []byte(" "), 5)
	if len(fields) != 5 || string(fields[0]) != slotHeader {
		return slot{}, errTorn
	}
	if string(fields[1]) != "1" {
		return slot{}, fmt.Errorf("slot format %q, this release knows 1", fields[1])
	}
	sequence, err := strconv.ParseUint(string(fields[2]), 10, 64)
	if err != nil || strconv.FormatUint(sequence, 10) != string(fields[2]) {
		return slot{}, errTorn
	}
	if fmt.Sprintf("%08x", checksum(string(fields[2]), fields[4])) != string(fields[3]) {
		return slot{}, errTorn
	}
	var state State
	if err := json.Unmarshal(fields[4], &state); err != nil {
		return slot{}, errTorn
	}
	if err := state.Validate(); err != nil {
		return slot{}, err
	}
	return slot{sequence: sequence, state: state}, nil
}

func checksum(sequence string, state []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum([]byte(sequence), table), table, state)
}
