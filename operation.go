package mssqlcdc

import "fmt"

// Operation is the value of __$operation, and 0 for a row of a snapshot
// (SQL Server documentation, cdc.<capture_instance>_CT).
type Operation int8

// The operations.
const (
	Read         Operation = 0 // a row of a snapshot
	Delete       Operation = 1
	Insert       Operation = 2
	UpdateBefore Operation = 3 // the row before an update
	UpdateAfter  Operation = 4 // the row after an update
)

// ParseOperation is the inverse of [Operation.String].
func ParseOperation(text string) (Operation, error) {
	for op := Read; op <= UpdateAfter; op++ {
		if op.String() == text {
			return op, nil
		}
	}
	return 0, fmt.Errorf("unknown operation %q: want read, delete, insert, update_before or update_after", text)
}

// String is the name that messages carry as metadata.
func (o Operation) String() string {
	switch o {
	case Read:
		return "read"
	case Delete:
		return "delete"
	case Insert:
		return "insert"
	case UpdateBefore:
		return "update_before"
	case UpdateAfter:
		return "update_after"
	}
	return fmt.Sprintf("operation(%d)", int8(o))
}

// Valid tells whether the value is one of the five operations.
func (o Operation) Valid() bool { return o >= Read && o <= UpdateAfter }
