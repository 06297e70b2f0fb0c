package sqlerr

// entry is one row of the catalogue.
type entry struct {
	number       int32
	class, state uint8
	format       string
}

// catalogue lists the messages that the language and most hosts need, by
// number. CDC's own messages (229xx) belong to the host.
//
// Source: sys.messages as listed in "Database Engine events and errors".
func catalogue() []entry {
	return []entry{
		{102, 15, 1, "Incorrect syntax near '%s'."},
		{103, 15, 4, "The %s that starts with '%s' is too long. Maximum length is %d."},
		{105, 15, 1, "Unclosed quotation mark after the character string '%s'."},
		{107, 15, 1, "The column prefix '%s' does not match with a table name or alias name used in the query."},
		{108, 15, 1, "The ORDER BY position number %d is out of range of the number of items in the select list."},
		{109, 15, 1, "There are more columns in the INSERT statement than values specified in the VALUES clause. The number of values in the VALUES clause must match the number of columns specified in the INSERT statement."},
		{110, 15, 1, "There are fewer columns in the INSERT statement than values specified in the VALUES clause. The number of values in the VALUES clause must match the number of columns specified in the INSERT statement."},
		{111, 15, 1, "'%s' must be the first statement in a query batch."},
		{113, 15, 1, "Missing end comment mark '*/'."},
		{116, 16, 1, "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS."},
		{117, 15, 1, "The %s name '%s' contains more than the maximum number of prefixes. The maximum is %d."},
		{119, 15, 1, "Must pass parameter number %d and subsequent parameters as '@name = value'. After the form '@name = value' has been used, all subsequent parameters must be passed in the form '@name = value'."},
		{120, 15, 1, "The select list for the INSERT statement contains fewer items than the insert list. The number of SELECT values must match the number of INSERT columns."},
		{121, 15, 1, "The select list for the INSERT statement contains more items than the insert list. The number of SELECT values must match the number of INSERT columns."},
		{127, 15, 1, "A TOP N or FETCH rowcount value may not be negative."},
		{130, 15, 1, "Cannot perform an aggregate function on an expression containing an aggregate or a subquery."},
		{134, 15, 2, "The variable name '%s' has already been declared. Variable names must be unique within a query batch or stored procedure."},
		{135, 15, 1, "Cannot use a BREAK statement outside the scope of a WHILE statement."},
		{136, 15, 1, "Cannot use a CONTINUE statement outside the scope of a WHILE statement."},
		{137, 15, 2, "Must declare the scalar variable \"%s\"."},
		{141, 15, 1, "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations."},
		{142, 15, 2, "Incorrect syntax for definition of the '%s' constraint."},
		{144, 15, 1, "Cannot use an aggregate or a subquery in an expression used for the group by list of a GROUP BY clause."},
		{145, 15, 1, "ORDER BY items must appear in the select list if SELECT DISTINCT is specified."},
		{147, 15, 1, "An aggregate may not appear in the WHERE clause unless it is in a subquery contained in a HAVING clause or a select list, and the column being aggregated is an outer reference."},
		{148, 15, 1, "Incorrect time syntax in time string '%s' used with WAITFOR."},
		{155, 15, 1, "'%s' is not a recognized %s option."},
		{156, 15, 1, "Incorrect syntax near the keyword '%s'."},
		{157, 15, 1, "An aggregate may not appear in the set list of an UPDATE statement."},
		{168, 15, 1, "The floating point value '%s' is out of the range of computer representation (%d bytes)."},
		{174, 15, 1, "The %s function requires %d argument(s)."},
		{178, 15, 1, "A RETURN statement with a return value cannot be used in this context."},
		{189, 15, 1, "The %s function requires %d to %d arguments."},
		{191, 15, 1, "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries."},
		{195, 15, 10, "'%s' is not a recognized built-in function name."},
		{201, 16, 4, "Procedure or function '%s' expects parameter '%s', which was not supplied."},
		{205, 16, 1, "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions in their target lists."},
		{206, 16, 2, "Operand type clash: %s is incompatible with %s"},
		{207, 16, 1, "Invalid column name '%s'."},
		{208, 16, 1, "Invalid object name '%s'."},
		{209, 16, 1, "Ambiguous column name '%s'."},
		{213, 16, 1, "Column name or number of supplied values does not match table definition."},
		{214, 16, 2, "Procedure expects parameter '%s' of type '%s'."},
		{217, 16, 1, "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32)."},
		{220, 16, 2, "Arithmetic overflow error for data type %s, value = %s."},
		{229, 14, 5, "The %s permission was denied on the object '%s', database '%s', schema '%s'."},
		{230, 14, 1, "The %s permission was denied on the column '%s' of the object '%s', database '%s', schema '%s'."},
		{232, 16, 3, "Arithmetic overflow error for type %s, value = %s."},
		{234, 16, 2, "There is insufficient result space to convert a money value to %s."},
		{235, 16, 0, "Cannot convert a char value to money. The char value has incorrect syntax."},
		{236, 16, 0, "The conversion from char data type to money resulted in a money overflow error."},
		{241, 16, 1, "Conversion failed when converting date and/or time from character string."},
		{242, 16, 3, "The conversion of a %s data type to a %s data type resulted in an out-of-range value."},
		{243, 16, 1, "Type %s is not a defined system type."},
		{244, 16, 1, "The conversion of the %s value '%s' overflowed an %s column. Use a larger integer column."},
		{245, 16, 1, "Conversion failed when converting the %s value '%s' to data type %s."},
		{248, 16, 1, "The conversion of the %s value '%s' overflowed an int column."},
		{257, 16, 3, "Implicit conversion from data type %s to %s is not allowed. Use the CONVERT function to run this query."},
		{264, 16, 1, "The column name '%s' is specified more than once in the SET clause or column list of an INSERT. A column cannot be assigned more than one value in the same clause. Modify the clause to make sure that a column is updated only once. If this statement updates or inserts columns into a view, column aliasing can conceal the duplication in your code."},
		{266, 16, 2, "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. Previous count = %d, current count = %d."},
		{270, 16, 1, "Object '%s' cannot be modified."},
		{271, 16, 1, "The column \"%s\" cannot be modified because it is either a computed column or is the result of a UNION operator."},
		{272, 16, 1, "Cannot update a timestamp column."},
		{273, 16, 1, "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the timestamp column, or insert a DEFAULT into the timestamp column."},
		{281, 16, 1, "%d is not a valid style number when converting from %s to a character string."},
		{293, 16, 0, "Cannot convert char value to smallmoney. The char value has incorrect syntax."},
		{295, 16, 3, "Conversion failed when converting character string to smalldatetime data type."},
		{306, 16, 2, "The text, ntext, and image data types cannot be compared or sorted, except when using IS NULL or LIKE operator."},
		{310, 15, 1, "The value %d specified for the MAXRECURSION option exceeds the allowed maximum of %d."},
		{313, 16, 3, "An insufficient number of arguments were supplied for the procedure or function %s."},
		{321, 15, 1, "\"%s\" is not a recognized table hints option. If it is intended as a parameter to a table-valued function or to the CHANGETABLE function, ensure that your database compatibility mode is set to 90."},
		{402, 16, 1, "The data types %s and %s are incompatible in the %s operator."},
		{404, 16, 1, "The column reference \"%s\" is not allowed because it refers to a base table that is not being modified in this statement."},
		{447, 16, 0, "Expression type %s is invalid for COLLATE clause."},
		{448, 16, 4, "Invalid collation '%s'."},
		{468, 16, 9, "Cannot resolve the collation conflict between \"%s\" and \"%s\" in the %s operation."},
		{512, 16, 1, "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , >, >= or when the subquery is used as an expression."},
		{515, 16, 2, "Cannot insert the value NULL into column '%s', table '%s'; column does not allow nulls. %s fails."},
		{517, 16, 1, "Adding a value to a '%s' column caused an overflow."},
		{529, 16, 1, "Explicit conversion from data type %s to %s is not allowed."},
		{530, 16, 1, "The statement terminated. The maximum recursion %d has been exhausted before statement completion."},
		{535, 16, 0, "The %s function resulted in an overflow. The number of dateparts separating two date/time instances is too large. Try to use %s with a less precise datepart."},
		{536, 16, 1, "Invalid length parameter passed to the %s function."},
		{537, 16, 2, "Invalid length parameter passed to the LEFT or SUBSTRING function."},
		{544, 16, 1, "Cannot insert explicit value for identity column in table '%s' when IDENTITY_INSERT is set to OFF."},
		{545, 16, 1, "Explicit value must be specified for identity column in table '%s' either when IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT FOR REPLICATION identity column."},
		{547, 16, 0, "The %s statement conflicted with the %s constraint \"%s\". The conflict occurred in database \"%s\", table \"%s\"%s."},
		{628, 16, 0, "Cannot issue SAVE TRANSACTION when there is no active transaction."},
		{911, 16, 1, "Database '%s' does not exist. Make sure that the name is entered correctly."},
		{916, 14, 1, "The server principal \"%s\" is not able to access the database \"%s\" under the current security context."},
		{1001, 15, 1, "Line %d: Length or precision specification %d is invalid."},
		{1002, 15, 1, "Line %d: Specified scale %d is invalid."},
		{1011, 16, 1, "The correlation name '%s' is specified multiple times in a FROM clause."},
		{1013, 16, 1, "The objects \"%s\" and \"%s\" in the FROM clause have the same exposed names. Use correlation names to distinguish them."},
		{1033, 15, 1, "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common table expressions, unless TOP, OFFSET or FOR XML is also specified."},
		{1038, 15, 4, "An object or column name is missing or empty. For SELECT INTO statements, verify each column has a name. For other statements, look for empty alias names. Aliases defined as \"\" or [] are not allowed. Change the alias to a valid name."},
		{1060, 15, 1, "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer."},
		{1087, 15, 2, "Must declare the table variable \"%s\"."},
		{1205, 13, 51, "Transaction (Process ID %d) was deadlocked on %s resources with another process and has been chosen as the deadlock victim. Rerun the transaction."},
		{1222, 16, 51, "Lock request time out period exceeded."},
		{1934, 16, 1, "%s failed because the following SET options have incorrect settings: '%s'. Verify that SET options are correct for use with indexed views and/or indexes on computed columns and/or filtered indexes and/or query notifications and/or XML data type methods and/or spatial index operations."},
		{2601, 14, 1, "Cannot insert duplicate key row in object '%s' with unique index '%s'. The duplicate key value is %s."},
		{2627, 14, 1, "Violation of %s constraint '%s'. Cannot insert duplicate key in object '%s'. The duplicate key value is %s."},
		{2628, 16, 1, "String or binary data would be truncated in table '%s', column '%s'. Truncated value: '%s'."},
		{2705, 16, 3, "Column names in each table must be unique. Column name '%s' in table '%s' is specified more than once."},
		{2714, 16, 6, "There is already an object named '%s' in the database."},
		{2715, 16, 6, "Column, parameter, or variable #%d: Cannot find data type %s."},
		{2716, 16, 1, "Column, parameter, or variable #%d: Cannot specify a column width on data type %s."},
		{2717, 15, 1, "The size (%d) given to the %s '%s' exceeds the maximum allowed (%d)."},
		{2732, 16, 1, "Error number %d is invalid. The number must be from 13000 through 2147483647 and it cannot be 50000."},
		{2754, 16, 1, "Error severity levels greater than 18 can only be specified by members of the sysadmin role, using the WITH LOG option."},
		{2786, 16, 1, "The data type of substitution parameter %d does not match the expected type of the format specification."},
		{2787, 16, 1, "Invalid format specification: '%s'."},
		{2812, 16, 62, "Could not find stored procedure '%s'."},
		{3609, 16, 1, "The transaction ended in the trigger. The batch has been aborted."},
		{3621, 0, 0, "The statement has been terminated."},
		{3701, 11, 5, "Cannot %s the %s '%s', because it does not exist or you do not have permission."},
		{3902, 16, 1, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION."},
		{3903, 16, 1, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."},
		{3906, 16, 1, "Failed to update database \"%s\" because the database is read-only."},
		{3915, 16, 0, "Cannot use the ROLLBACK statement within an INSERT-EXEC statement."},
		{3930, 16, 1, "The current transaction cannot be committed and cannot support operations that write to the log file. Roll back the transaction."},
		{3931, 16, 1, "The current transaction cannot be committed and cannot be rolled back to a savepoint. Roll back the entire transaction."},
		{3952, 16, 1, "Snapshot isolation transaction failed accessing database '%s' because snapshot isolation is not allowed in this database. Use ALTER DATABASE to allow snapshot isolation."},
		{3960, 16, 2, "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot isolation to access table '%s' directly or indirectly in database '%s' to update, delete, or insert the row that has been modified or deleted by another transaction. Retry the transaction or change the isolation level for the update/delete statement."},
		{3961, 16, 1, "Snapshot isolation transaction failed in database '%s' because the object accessed by the statement has been modified by a DDL statement in another concurrent transaction since the start of this transaction.  It is disallowed because the metadata is not versioned. A concurrent update to metadata can lead to inconsistency if mixed with snapshot isolation."},
		{3998, 16, 1, "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back."},
		{4104, 16, 1, "The multi-part identifier \"%s\" could not be bound."},
		{4108, 15, 1, "Windowed functions can only appear in the SELECT or ORDER BY clauses."},
		{4112, 15, 1, "The function '%s' must have an OVER clause with ORDER BY."},
		{4113, 15, 1, "The function '%s' is not a valid windowing function, and cannot be used with the OVER clause."},
		{4121, 16, 1, "Cannot find either column \"%s\" or the user-defined function or aggregate \"%s\", or the name is ambiguous."},
		{4145, 15, 1, "An expression of non-boolean type specified in a context where a condition is expected, near '%s'."},
		{4701, 16, 1, "Cannot find the object \"%s\" because it does not exist or you do not have permissions."},
		{4711, 16, 1, "Cannot truncate table '%s' because it is published for replication or enabled for Change Data Capture."},
		{4902, 16, 1, "Cannot find the object \"%s\" because it does not exist or you do not have permissions."},
		{4922, 16, 9, "%s failed because one or more objects access this column."},
		{4924, 16, 1, "%s failed because column '%s' does not exist in table '%s'."},
		{4928, 16, 1, "Cannot alter column '%s' because it is '%s'."},
		{6401, 16, 1, "Cannot roll back %s. No transaction or savepoint of that name was found."},
		{8101, 16, 1, "An explicit value for the identity column in table '%s' can only be specified when a column list is used and IDENTITY_INSERT is ON."},
		{8102, 16, 1, "Cannot update identity column '%s'."},
		{8107, 16, 1, "IDENTITY_INSERT is already ON for table '%s'. Cannot perform SET operation for table '%s'."},
		{8114, 16, 5, "Error converting data type %s to %s."},
		{8115, 16, 2, "Arithmetic overflow error converting %s to data type %s."},
		{8116, 16, 1, "Argument data type %s is invalid for argument %d of %s function."},
		{8117, 16, 1, "Operand data type %s is invalid for %s operator."},
		{8120, 16, 1, "Column '%s' is invalid in the select list because it is not contained in either an aggregate function or the GROUP BY clause."},
		{8121, 16, 1, "Column '%s' is invalid in the HAVING clause because it is not contained in either an aggregate function or the GROUP BY clause."},
		{8127, 16, 1, "Column \"%s\" is invalid in the ORDER BY clause because it is not contained in either an aggregate function or the GROUP BY clause."},
		{8133, 16, 1, "At least one of the result expressions in a CASE specification must be an expression other than the NULL constant."},
		{8134, 16, 1, "Divide by zero error encountered."},
		{8143, 16, 1, "Parameter '%s' was supplied multiple times."},
		{8144, 16, 2, "Procedure or function %s has too many arguments specified."},
		{8145, 16, 1, "%s is not a parameter for procedure %s."},
		{8146, 16, 2, "Procedure %s has no parameters and arguments were supplied."},
		{8152, 16, 30, "String or binary data would be truncated."},
		{8153, 10, 1, "Warning: Null value is eliminated by an aggregate or other SET operation."},
		{8155, 16, 2, "No column name was specified for column %d of '%s'."},
		{8156, 16, 1, "The column '%s' was specified multiple times for '%s'."},
		{8158, 16, 1, "'%s' has more columns than were specified in the column list."},
		{8159, 16, 1, "'%s' has fewer columns than were specified in the column list."},
		{8162, 16, 2, "The formal parameter \"%s\" was not declared as an OUTPUT parameter, but the actual parameter passed in requested output."},
		{8169, 16, 2, "Conversion failed when converting from a character string to uniqueidentifier."},
		{8170, 16, 2, "Insufficient result space to convert uniqueidentifier value to char."},
		{8178, 16, 1, "The parameterized query '%s' expects the parameter '%s', which was not supplied."},
		{8179, 16, 2, "Could not find prepared statement with handle %d."},
		{8180, 16, 1, "Statement(s) could not be prepared."},
		{8672, 16, 1, "The MERGE statement attempted to UPDATE or DELETE the same row more than once. This happens when a target row matches more than one source row. A MERGE statement cannot UPDATE/DELETE the same row of the target table multiple times. Refine the ON clause to ensure a target row matches at most one source row, or use the GROUP BY clause to group the source rows."},
		{9809, 16, 1, "The style %d is not supported for conversions from %s to %s."},
		{9812, 16, 0, "The timezone provided to builtin function %s is invalid."},
		{9820, 16, 0, "The time zone parameter '%s' provided to AT TIME ZONE clause is invalid."},
		{10704, 15, 1, "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW statement inside a CATCH block, or add error parameters to the THROW statement."},
		{10709, 16, 1, "The number of columns for each row in a table value constructor must be the same."},
		{10713, 15, 1, "A MERGE statement must be terminated by a semi-colon (;)."},
		{10742, 15, 1, "The offset specified in a OFFSET clause may not be negative."},
		{10744, 15, 1, "The number of rows provided for a FETCH clause must be greater then zero."},
		{10753, 15, 1, "The function '%s' must have an OVER clause."},
		{11501, 16, 2, "The parameters supplied for the %s \"%s\" are not valid."},
		{35100, 16, 1, "Error number %d in the THROW statement is outside the valid range. Specify an error number in the valid range of 50000 to 2147483647."},
	}
}

// Make builds the error of that number from the catalogue; args fill the
// placeholders of its text in order. A number that the catalogue does not have gives
// a class 16 error with the arguments as text, so that nothing is lost.
func Make(number int32, args ...any) *Error {
	catalogue := catalogue()
	lo, hi := 0, len(catalogue)
	for lo < hi {
		mid := (lo + hi) / 2
		if catalogue[mid].number < number {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(catalogue) && catalogue[lo].number == number {
		e := catalogue[lo]
		return New(e.number, e.class, e.state, e.format, args...)
	}
	return New(number, 16, 1, "%v", any(args))
}

// MakeState is Make with another state.
func MakeState(number int32, state uint8, args ...any) *Error {
	e := Make(number, args...)
	e.State = state
	return e
}
