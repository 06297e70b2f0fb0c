// Package workload writes to a simulator what a test, the demo and the benchmark want to read back from CDC, and says exactly
// which change rows it caused.
//
//	orders, err := workload.NewOrders(ctx, sim, workload.OrdersConfig{Seed: 7})
//	err = orders.Run(ctx, 200)       // 200 transactions
//	err = sim.Capture(ctx)
//	truth := orders.Truth()          // change rows by table, current rows by key
//
// Everything is written through T-SQL, in process, so a workload also runs the path that a client's statements take; only Backlog
// goes through the engine's bulk loader. All workloads are deterministic under their seed.
package workload
