// Package sqlserver reads Change Data Capture from SQL Server: the catalogue, windows of a change table as Arrow
// records, DDL history and commit times in UTC. It writes nothing to the source and knows nothing of the program
// around it.
//
//	client, err := sqlserver.Open(ctx, sqlserver.Config{ConnectionString: text})
//	defer client.Close()
//	instances, err := client.Instances(ctx)
//	layout, err := client.Columns(ctx, instances[0], sqlserver.ColumnOptions{})
//	head, err := client.MaxLSN(ctx)
//	plan, err := client.Plan(ctx, layout, resume, head.LSN, limits)
//	for part, err := range client.Read(ctx, sqlserver.ReadRequest{Layout: layout, Plan: plan, Limits: limits}) {
//		// every part is provisional until the one with Last set
//	}
//
// A snapshot reads the source table in chunks of key order, next to the stream from its first stamp on:
//
//	stamp, err := client.SnapshotStamp(ctx, instance)
//	key, err := client.SnapshotKey(ctx, layout, nil)
//	last, err := client.MaxKey(ctx, layout, key)
//	next, err := client.NextBound(ctx, layout, key, from, last, rows) // until it is empty; then
//	end, err := client.EndBound(ctx, layout, key, last)
//	for part, err := range client.ReadChunk(ctx, sqlserver.ChunkRequest{Layout: layout, Key: key, From: from, To: next, Stamp: stamp}) {
//	}
//
// # What holds
//
//   - Change rows come from the change table itself, in the order of [mssqlcdc.Position], from a closed range of commit
//     LSNs that ends at or below a max_lsn that was seen before the read. No row can appear in it later.
//   - The low watermark (min_lsn) of the instance is compared with the range before and after every read, idle
//     windows included; a range that clean-up touched is a [DataLossError], never a shorter result.
//   - A window ends on a commit boundary, also where a limit cut it while it was read.
//   - Chunks tile the keys by half-open ranges, whatever is written meanwhile. Keys are compared by the server alone, and a
//     value is never split over two chunks.
//   - Memory is bounded by the part limits, whatever the backlog or the size of a transaction.
//   - Statement text depends on the tables and columns only; what changes from call to call is a parameter, so the
//     server compiles each statement once.
//   - Values are exact (types.go). Commit times become UTC by the rules of package zone, in LSN order.
//   - No error holds the password, the access token or a row's value.
//
// # Errors
//
// [Classify] is the one place that decides what an error means: retry, stop, or ask the database owner.
package sqlserver
