package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// KeyMoves writes to dbo.key_moves, whose rows change their keys all the time: alone and many in one statement, onto keys that were left in
// the same transaction, there and back, in a circle, with and without another value. CDC records each move as a delete and an insert. It is
// not safe for concurrent use.
type KeyMoves struct {
	db   Execer
	rng  *rand.Rand
	seed int64
	next int
}

// NewKeyMoves makes dbo.key_moves (a int, b varchar(10), payload nvarchar(100); key a, b) with CDC and twenty rows.
func NewKeyMoves(ctx context.Context, db Execer, seed int64) (*KeyMoves, error) {
	k := &KeyMoves{db: db, rng: rand.New(rand.NewPCG(uint64(seed), 2)), seed: seed}
	ddl := "CREATE TABLE dbo.key_moves (a int NOT NULL, b varchar(10) NOT NULL, payload nvarchar(100) NULL, PRIMARY KEY (a, b));\n" +
		enableSQL("dbo", "", "key_moves")
	if err := db.Exec(ctx, ddl); err != nil {
		return nil, fmt.Errorf("creating the key moves workload: %w", err)
	}
	for range 20 {
		if err := db.Exec(ctx, k.insert()); err != nil {
			return nil, fmt.Errorf("creating the key moves workload: %w", err)
		}
	}
	return k, nil
}

func (k *KeyMoves) insert() string {
	k.next++
	return fmt.Sprintf("INSERT dbo.key_moves VALUES (%d, 'k%d', N'row %d');\n", 10*k.next, k.next%7, k.next)
}

// any is a condition that one row meets.
func (k *KeyMoves) any() string {
	return fmt.Sprintf("a = (SELECT MIN(a) FROM dbo.key_moves WHERE a >= %d)", k.rng.IntN(10*k.next)-5)
}

// Step makes one transaction.
func (k *KeyMoves) Step(ctx context.Context) error {
	sql := "SET XACT_ABORT ON; BEGIN TRANSACTION;\n"
	switch k.rng.IntN(8) {
	case 0:
		sql += k.insert()
	case 1: // all of them in one statement
		sql += "UPDATE dbo.key_moves SET a = a + 1;\n"
	case 2: // one, with its value
		sql += "UPDATE dbo.key_moves SET b = b + 'x', payload = N'moved' WHERE LEN(b) < 8 AND " + k.any() + ";\n"
	case 3: // there and back
		sql += "UPDATE dbo.key_moves SET a = -a;\nUPDATE dbo.key_moves SET a = -a, payload = N'back';\n"
	case 4: // in a circle: two rows take each other's key
		sql += `DECLARE @lo int = (SELECT MIN(a) FROM dbo.key_moves), @hi int = (SELECT MAX(a) FROM dbo.key_moves);
UPDATE dbo.key_moves SET a = CASE a WHEN @lo THEN @hi ELSE @lo END WHERE a IN (@lo, @hi);
`
	case 5: // a new row takes a key that was left
		sql += fmt.Sprintf(`DECLARE @was int = (SELECT MIN(a) FROM dbo.key_moves), @wasb varchar(10) = (SELECT TOP (1) b FROM dbo.key_moves ORDER BY a);
UPDATE dbo.key_moves SET a = @was + 100000 + %d WHERE a = @was AND b = @wasb;
INSERT dbo.key_moves VALUES (@was, @wasb, N'took the key');
`, k.rng.IntN(100_000))
	case 6: // deleted and put back
		sql += `DECLARE @k int = (SELECT MAX(a) FROM dbo.key_moves), @kb varchar(10) = (SELECT TOP (1) b FROM dbo.key_moves ORDER BY a DESC);
DELETE dbo.key_moves WHERE a = @k AND b = @kb;
INSERT dbo.key_moves VALUES (@k, @kb, N'again');
`
	default: // a plain update between the moves
		sql += "UPDATE dbo.key_moves SET payload = payload + N'.' WHERE LEN(payload) < 90 AND a % 3 = 0;\n"
	}
	if err := k.db.Exec(ctx, sql+"COMMIT TRANSACTION;"); err != nil {
		return fmt.Errorf("moving keys (seed %d): %w", k.seed, err)
	}
	return nil
}

// Run makes n transactions.
func (k *KeyMoves) Run(ctx context.Context, n int) error {
	for range n {
		if err := k.Step(ctx); err != nil {
			return err
		}
	}
	return nil
}
