package sqlserversim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// engineMessage gives class, state and text of the messages that the engine and this package raise outside the CDC family.
// Texts and classes: Microsoft, "Database engine events and errors". States: as servers were seen to send them, else 1.
func engineMessage(number int32) (class, state uint8, text string, ok bool) {
	switch number {
	case 15:
		return 16, 1, "Incorrect value for parameter %v.", true
	case 201:
		return 16, 4, "Procedure or function '%v' expects parameter '%v', which was not supplied.", true
	case 207:
		return 16, 1, "Invalid column name '%v'.", true
	case 208:
		return 16, 1, "Invalid object name '%v'.", true
	case 259:
		return 16, 1, "Ad hoc updates to system catalogs are not allowed.", true
	case 262:
		return 14, 1, "%v permission denied in database '%v'.", true
	case 266:
		return 16, 2, "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. Previous count = %v, current count = %v.", true
	case 297:
		return 16, 1, "The user does not have permission to perform this action.", true
	case 300:
		return 14, 1, "%v permission was denied on object 'server', database 'master'.", true
	case 313:
		return 16, 3, "An insufficient number of arguments were supplied for the procedure or function %v.", true
	case 515:
		return 16, 2, "Cannot insert the value NULL into column '%v', table '%v'; column does not allow nulls. %v fails.", true
	case 544:
		return 16, 1, "Cannot insert explicit value for identity column in table '%v' when IDENTITY_INSERT is set to OFF.", true
	case 596:
		return 21, 1, "Cannot continue the execution because the session is in the kill state.", true
	case 628:
		return 16, 0, "Cannot issue SAVE TRANSACTION when there is no active transaction.", true
	case 911:
		return 16, 1, "Database '%v' does not exist. Make sure that the name is entered correctly.", true
	case 916:
		return 14, 2, "The server principal \"%v\" is not able to access the database \"%v\" under the current security context.", true
	case 976:
		return 14, 1, "The target database, '%v', is participating in an availability group and is currently not accessible for queries. Either data movement is suspended or the availability replica is not enabled for read access. To allow read-only access to this and other databases in the availability group, enable read access to one or more secondary availability replicas in the group.  For more information, see the ALTER AVAILABILITY GROUP statement in SQL Server Books Online.", true
	case 983:
		return 14, 1, "Unable to access availability database '%v' because the database replica is not in the PRIMARY or SECONDARY role. Connections to an availability database is permitted only when the database replica is in the PRIMARY or SECONDARY role. Try the operation again later.", true
	case 1020:
		return 15, 1, "Sub-entity lists (such as column or security expressions) cannot be specified for entity-level permissions.", true
	case 1088:
		return 16, 12, "Cannot find the object \"%v\" because it does not exist or you do not have permissions.", true
	case 1205:
		return 13, 51, "Transaction (Process ID %v) was deadlocked on lock resources with another process and has been chosen as the deadlock victim. Rerun the transaction.", true
	case 1222:
		return 16, 51, "Lock request time out period exceeded.", true
	case 1505:
		return 16, 1, "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name '%v' and the index name '%v'. The duplicate key value is %v.", true
	case 1781:
		return 16, 1, "Column already has a DEFAULT bound to it.", true
	case 1801:
		return 16, 3, "Database '%v' already exists. Choose a different database name.", true
	case 1902:
		return 16, 3, "Cannot create more than one clustered index on table '%v'. Drop the existing clustered index '%v' before creating another.", true
	case 1911:
		return 16, 1, "Column name '%v' does not exist in the target table or view.", true
	case 1913:
		return 16, 1, "The operation failed because an index or statistics with name '%v' already exists on table '%v'.", true
	case 2601:
		return 14, 1, "Cannot insert duplicate key row in object '%v' with unique index '%v'. The duplicate key value is %v.", true
	case 2627:
		return 14, 1, "Violation of %v constraint '%v'. Cannot insert duplicate key in object '%v'. The duplicate key value is %v.", true
	case 2628:
		return 16, 1, "String or binary data would be truncated in table '%v', column '%v'. Truncated value: '%v'.", true
	case 2705:
		return 16, 4, "Column names in each table must be unique. Column name '%v' in table '%v' is specified more than once.", true
	case 2714:
		return 16, 6, "There is already an object named '%v' in the database.", true
	case 2715:
		return 16, 6, "Column, parameter, or variable #%v: Cannot find data type %v.", true
	case 2760:
		return 16, 1, "The specified schema name \"%v\" either does not exist or you do not have permission to use it.", true
	case 2812:
		return 16, 62, "Could not find stored procedure '%v'.", true
	case 3701:
		return 11, 5, "Cannot %v the %v '%v', because it does not exist or you do not have permission.", true
	case 3702:
		return 16, 3, "Cannot drop database \"%v\" because it is currently in use.", true
	case 3728:
		return 16, 1, "'%v' is not a constraint.", true
	case 3729:
		return 16, 1, "Cannot drop schema '%v' because it is being referenced by object '%v'.", true
	case 3902:
		return 16, 1, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.", true
	case 3903:
		return 16, 1, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.", true
	case 3906:
		return 16, 1, "Failed to update database \"%v\" because the database is read-only.", true
	case 3930:
		return 16, 1, "The current transaction cannot be committed and cannot support operations that write to the log file. Roll back the transaction.", true
	case 3951:
		return 16, 1, "Transaction failed in database '%v' because the statement was run under snapshot isolation but the transaction did not start in snapshot isolation. You cannot change the isolation level of the transaction to snapshot after the transaction has started unless the transaction was originally started under snapshot isolation level.", true
	case 3952:
		return 16, 1, "Snapshot isolation transaction failed accessing database '%v' because snapshot isolation is not allowed in this database. Use ALTER DATABASE to allow snapshot isolation.", true
	}
	return engineMessage2(number)
}

func engineMessage2(number int32) (class, state uint8, text string, ok bool) {
	switch number {
	case 3960:
		return 16, 2, "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot isolation to access table '%v' directly or indirectly in database '%v' to update, delete, or insert the row that has been modified or deleted by another transaction. Retry the transaction or change the isolation level for the update/delete statement.", true
	case 3961:
		return 16, 1, "Snapshot isolation transaction failed in database '%v' because the object accessed by the statement has been modified by a DDL statement in another concurrent transaction since the start of this transaction.  It is disallowed because the metadata is not versioned. A concurrent update to metadata can lead to inconsistency if mixed with snapshot isolation.", true
	case 4060:
		return 11, 1, "Cannot open database \"%v\" requested by the login. The login failed.", true
	case 4711:
		return 16, 1, "Cannot truncate table '%v' because it is published for replication or enabled for Change Data Capture.", true
	case 4613:
		return 16, 1, "Grantor does not have GRANT permission.", true
	case 4701:
		return 16, 1, "Cannot find the object \"%v\" because it does not exist or you do not have permissions.", true
	case 4901:
		return 16, 1, "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT definition specified, or the column being added is an identity or timestamp column, or alternatively if none of the previous conditions are satisfied the table must be empty to allow addition of this column. Column '%v' cannot be added to non-empty table '%v' because it does not satisfy these conditions.", true
	case 4902:
		return 16, 1, "Cannot find the object \"%v\" because it does not exist or you do not have permissions.", true
	case 4922:
		return 16, 9, "ALTER TABLE %v %v failed because one or more objects access this column.", true
	case 4924:
		return 16, 1, "%v failed because column '%v' does not exist in table '%v'.", true
	case 4928:
		return 16, 1, "Cannot alter column '%v' because it is '%v'.", true
	case 5011:
		return 14, 5, "User does not have permission to alter database '%v', the database does not exist, or the database is not in a state that allows access checks.", true
	case 5074:
		return 16, 1, "The %v '%v' is dependent on column '%v'.", true
	case 6005:
		return 10, 1, "SHUTDOWN is in progress.", true
	case 6102:
		return 14, 1, "User does not have permission to use the KILL statement.", true
	case 6106:
		return 16, 1, "Process ID %v is not an active process ID.", true
	case 6401:
		return 16, 1, "Cannot roll back %v. No transaction or savepoint of that name was found.", true
	case 7139:
		return 16, 1, "Length of LOB data (%v) to be replicated exceeds configured maximum %v.", true
	case 8102:
		return 16, 1, "Cannot update identity column '%v'.", true
	case 8115:
		return 16, 2, "Arithmetic overflow error converting %v to data type %v.", true
	case 8134:
		return 16, 1, "Divide by zero error encountered.", true
	case 8144:
		return 16, 2, "Procedure or function %v has too many arguments specified.", true
	case 8147:
		return 16, 1, "Could not create IDENTITY attribute on nullable column '%v', table '%v'.", true
	case 9002:
		return 17, 2, "The transaction log for database '%v' is full due to '%v'.", true
	case 10928:
		return 20, 1, "Resource ID : 1. The request limit for the database is 60 and has been reached.", true
	case 14258:
		return 16, 1, "Cannot perform this operation while SQLServerAgent is starting. Try again later.", true
	case 15007:
		return 16, 1, "'%v' is not a valid login or you do not have permission.", true
	case 15023:
		return 16, 1, "User, group, or role '%v' already exists in the current database.", true
	case 15025:
		return 16, 1, "The server principal '%v' already exists.", true
	case 15009:
		return 16, 1, "The object '%v' does not exist in database '%v' or is invalid for this operation.", true
	case 15144:
		return 16, 1, "The role has members. It must be empty before it can be dropped.", true
	case 15151:
		return 16, 1, "Cannot find the %v '%v', because it does not exist or you do not have permission.", true
	case 15247:
		return 16, 1, "User does not have permission to perform this action.", true
	case 15477:
		return 0, 1, "Caution: Changing any part of an object name could break scripts and stored procedures.", true
	case 17142:
		return 14, 1, "SQL Server service has been paused. No new connections will be allowed. To resume the service, use SQL Computer Manager or the Services application in Control Panel.", true
	case 18456:
		return 14, 1, "Login failed for user '%v'.", true
	case 18470:
		return 14, 1, "Login failed for user '%v'. Reason: The account is disabled.", true
	case 40197:
		return 20, 1, "The service has encountered an error processing your request. Please try again. Error code %v.", true
	case 40501:
		return 20, 1, "The service is currently busy. Retry the request after 10 seconds. Incident ID: %v. Code: %v.", true
	case 40613:
		return 17, 1, "Database '%v' on server '%v' is not currently available. Please retry the connection later. If the problem persists, contact customer support, and provide them the session tracing ID of '%v'.", true
	}
	return 0, 0, "", false
}

// message makes the error of a number with its arguments. A number that has no text here gets one that says so.
func message(number int32, args ...any) *sqlerr.Error {
	class, state, text, ok := engineMessage(number)
	if !ok {
		if class, text, ok = cdcMessage(number); ok {
			state = 1
		}
	}
	if !ok {
		return sqlerr.New(number, 16, 1, "%s", fmt.Sprintf("Message %d, of which the simulator has no text. Arguments: %v", number, args))
	}
	if n := strings.Count(text, "%v"); n > 0 && len(args) >= n {
		text = fmt.Sprintf(text, args[:n]...)
	}
	return &sqlerr.Error{Number: number, Class: class, State: state, Message: text}
}

// clientError words an error for the client: engine errors by number, SQL errors as they are. Others, ctx ends among them,
// come back unchanged. spid goes into 1205.
func clientError(err error, spid int) error {
	if err == nil || sqlerr.Of(err) != nil {
		return err
	}
	e, ok := errors.AsType[*engine.Error](err)
	if !ok {
		return err
	}
	args := e.Args
	if e.Number == engine.ErrDeadlock && len(args) == 0 {
		args = []any{spid}
	}
	return message(e.Number, args...)
}

// clientText is the text of an error as a client would read it, other when it has none.
func clientText(err error, other string) string {
	if e := sqlerr.Of(clientError(err, 0)); e != nil {
		return e.Message
	}
	return other
}
