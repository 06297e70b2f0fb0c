package ast

import "github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"

// ColumnDef is a column of CREATE TABLE or ALTER TABLE ADD.
type ColumnDef struct {
	Name     string
	Type     sqltype.Type
	UserType ObjectName // alias type as written when it is not a system type; zero otherwise
	Null     *bool      // NULL or NOT NULL as written; nil when neither was
	Identity *Identity
	RowGUID  bool
	Sparse   bool
	Default  *Constraint  // DEFAULT, with its name if given
	Computed Expr         // AS expression
	Persist  bool         // PERSISTED
	Checks   []Constraint // column level constraints other than DEFAULT, in order
}

// Identity is IDENTITY(seed, increment).
type Identity struct{ Seed, Increment int64 }

// ConstraintKind is the kind of a table constraint.
type ConstraintKind uint8

// The constraints.
const (
	PrimaryKey ConstraintKind = iota
	Unique
	ForeignKey
	Check
	Default
)

// IndexColumn is a column of a key, with its direction.
type IndexColumn struct {
	Name string
	Desc bool
}

// Constraint is a table constraint, or one written at a column.
type Constraint struct {
	Name       string // empty: the host invents one
	Kind       ConstraintKind
	Clustered  *bool         // as written; nil when not
	Columns    []IndexColumn // key columns; for a column constraint that column
	References ObjectName    // of a foreign key
	RefColumns []string
	OnDelete   string // upper case: NO ACTION, CASCADE, SET NULL, SET DEFAULT; empty when absent
	OnUpdate   string
	Expr       Expr   // of CHECK and DEFAULT
	For        string // column of ADD CONSTRAINT … DEFAULT x FOR column
}

// CreateTable is CREATE TABLE, and the body of a table variable.
type CreateTable struct {
	Pos
	Name        ObjectName
	Columns     []ColumnDef
	Constraints []Constraint
}

// AlterTable is ALTER TABLE; exactly one of the groups is set.
type AlterTable struct {
	Pos
	Name            ObjectName
	Add             []ColumnDef
	AddConstraints  []Constraint
	DropColumns     []string
	DropConstraints []string
	IfExists        bool
	AlterColumn     *ColumnDef
	Enable, Disable []string // CHECK/NOCHECK CONSTRAINT, ENABLE/DISABLE TRIGGER names
	Switch          ObjectName
	SetOptions      []Option // SET (LOCK_ESCALATION = …)
}

// Option is a name with a value, both as written (names upper case).
type Option struct{ Name, Value string }

// CreateIndex is CREATE [UNIQUE] [CLUSTERED] INDEX.
type CreateIndex struct {
	Pos
	Unique, Clustered bool
	Name              string
	Table             ObjectName
	Columns           []IndexColumn
	Include           []string
	Where             Expr
}

// ObjectKind names what DROP and other statements act on.
type ObjectKind string

// The kinds of objects.
const (
	ObjTable     ObjectKind = "TABLE"
	ObjView      ObjectKind = "VIEW"
	ObjProcedure ObjectKind = "PROCEDURE"
	ObjFunction  ObjectKind = "FUNCTION"
	ObjSchema    ObjectKind = "SCHEMA"
	ObjDatabase  ObjectKind = "DATABASE"
	ObjIndex     ObjectKind = "INDEX"
	ObjUser      ObjectKind = "USER"
	ObjRole      ObjectKind = "ROLE"
	ObjLogin     ObjectKind = "LOGIN"
	ObjTrigger   ObjectKind = "TRIGGER"
)

// Drop is DROP of one or more objects. For ObjIndex, Tables holds the table of
// each name.
type Drop struct {
	Pos
	Kind     ObjectKind
	IfExists bool
	Names    []ObjectName
	Tables   []ObjectName
}

// CreateSchema is CREATE SCHEMA.
type CreateSchema struct {
	Pos
	Name, Owner string
}

// CreateDatabase is CREATE DATABASE.
type CreateDatabase struct {
	Pos
	Name, Collation string
}

// AlterDatabase is ALTER DATABASE name SET option [value] [WITH …]. Name is
// empty for CURRENT.
type AlterDatabase struct {
	Pos
	Name      string
	Options   []Option // ALLOW_SNAPSHOT_ISOLATION ON; a bare option has no value
	Collation string   // ALTER DATABASE x COLLATE y
}

// CreatePrincipal is CREATE LOGIN, USER or ROLE.
type CreatePrincipal struct {
	Pos
	Kind     ObjectKind // ObjLogin, ObjUser, ObjRole
	Name     string
	Password string   // of a login
	Login    string   // FOR LOGIN of a user
	Owner    string   // AUTHORIZATION of a role
	Options  []Option // DEFAULT_SCHEMA, DEFAULT_DATABASE, CHECK_POLICY …
}

// AlterPrincipal is ALTER ROLE … ADD|DROP MEMBER and ALTER LOGIN/USER … .
type AlterPrincipal struct {
	Pos
	Kind                  ObjectKind
	Name                  string
	Server                bool // ALTER SERVER ROLE
	AddMember, DropMember string
	Enable, Disable       bool // ALTER LOGIN … ENABLE|DISABLE
	Password              string
	Options               []Option
}

// PermissionKind is GRANT, DENY or REVOKE.
type PermissionKind string

// The permission statements.
const (
	Grant  PermissionKind = "GRANT"
	Deny   PermissionKind = "DENY"
	Revoke PermissionKind = "REVOKE"
)

// Permission is one permission, optionally on columns.
type Permission struct {
	Name    string // upper case, words separated by one blank: VIEW SERVER STATE
	Columns []string
}

// GrantStmt is GRANT, DENY or REVOKE.
type GrantStmt struct {
	Pos
	Kind        PermissionKind
	Permissions []Permission
	Class       string     // OBJECT, SCHEMA, DATABASE … upper case; empty when only a name was given
	On          ObjectName // zero for database or server permissions
	To          []string
	WithGrant   bool // WITH GRANT OPTION, or GRANT OPTION FOR
	Cascade     bool
}

// ProcParam is a parameter of CREATE PROCEDURE.
type ProcParam struct {
	Name    string // with its at sign
	Type    sqltype.Type
	Default Expr // nil: required
	Output  bool
}

// CreateProcedure is CREATE [OR ALTER] or ALTER PROCEDURE. Body positions and
// lines are relative to the batch, as SQL Server counts them.
type CreateProcedure struct {
	Pos
	Name    ObjectName
	OrAlter bool // CREATE OR ALTER
	Alter   bool // ALTER
	Params  []ProcParam
	Body    []Statement
	Text    string // the whole text of the statement
}

// Kill is KILL session.
type Kill struct {
	Pos
	Session int
}

// Checkpoint is CHECKPOINT.
type Checkpoint struct{ Pos }

func (*CreateTable) statement()     {}
func (*AlterTable) statement()      {}
func (*CreateIndex) statement()     {}
func (*Drop) statement()            {}
func (*CreateSchema) statement()    {}
func (*CreateDatabase) statement()  {}
func (*AlterDatabase) statement()   {}
func (*CreatePrincipal) statement() {}
func (*AlterPrincipal) statement()  {}
func (*GrantStmt) statement()       {}
func (*CreateProcedure) statement() {}
func (*Kill) statement()            {}
func (*Checkpoint) statement()      {}
