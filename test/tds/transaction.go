package tds

import "fmt"

// TransactionKind is the request type of a transaction manager request (MS-TDS 2.2.6.9).
type TransactionKind uint16

// Transaction manager requests.
const (
	TransactionGetDTC    TransactionKind = 0
	TransactionPropagate TransactionKind = 1
	TransactionBegin     TransactionKind = 5
	TransactionPromote   TransactionKind = 6
	TransactionCommit    TransactionKind = 7
	TransactionRollback  TransactionKind = 8
	TransactionSave      TransactionKind = 9
)

// String names the request.
func (k TransactionKind) String() string {
	switch k {
	case TransactionGetDTC:
		return "get DTC address"
	case TransactionPropagate:
		return "propagate transaction"
	case TransactionBegin:
		return "begin transaction"
	case TransactionPromote:
		return "promote transaction"
	case TransactionCommit:
		return "commit transaction"
	case TransactionRollback:
		return "rollback transaction"
	case TransactionSave:
		return "save transaction"
	default:
		return fmt.Sprintf("transaction request %d", uint16(k))
	}
}

// Isolation is an isolation level as transaction manager requests number them.
type Isolation uint8

// Isolation levels; IsolationCurrent means the session's own.
const (
	IsolationCurrent Isolation = iota
	ReadUncommitted
	ReadCommitted
	RepeatableRead
	Serializable
	Snapshot
)

// Transaction is a transaction manager request. Name is that of the transaction or savepoint, often empty.
// A commit or rollback may ask for a new transaction at once: Begin is then set, with its level and name.
//
// The answer to begin must carry ENVCHANGE 8 with a descriptor that is not zero ([Writer.EnvBegin]), to commit and rollback
// 9 and 10.
type Transaction struct {
	Kind      TransactionKind
	Isolation Isolation // of begin, or of the transaction begun after commit or rollback
	Name      string
	Begin     bool
	BeginName string
}

// transaction reads a request. The distributed ones are refused by name.
func (d *decoder) transaction() *Transaction {
	t := &Transaction{Kind: TransactionKind(d.u16("request type"))}
	if d.err != nil {
		return t
	}
	switch t.Kind {
	case TransactionBegin:
		t.Isolation = d.isolation()
		t.Name = d.bvarchar("transaction name")
	case TransactionCommit, TransactionRollback:
		t.Name = d.bvarchar("transaction name")
		if d.u8("flags")&1 != 0 {
			t.Begin = true
			t.Isolation = d.isolation()
			t.BeginName = d.bvarchar("transaction name")
		}
	case TransactionSave:
		t.Name = d.bvarchar("savepoint name")
	default:
		d.fail("request type", &UnsupportedError{t.Kind.String()})
	}
	return t
}

// isolation reads a level.
func (d *decoder) isolation() Isolation {
	level := Isolation(d.u8("isolation level"))
	if level > Snapshot {
		d.fail("isolation level", errRange)
	}
	return level
}
