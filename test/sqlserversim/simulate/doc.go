// Package simulate is a simulator with workloads that run by themselves: what the simulate command shows. It can be stopped and resumed:
// everything it does is determined by its seed, its script and the times of its steps, so a file of those brings the same server back, with
// the same rows, LSNs and commit times, and whoever read from it goes on where it was.
//
//	sim, err := simulate.Start(ctx, simulate.Config{Workloads: []string{"orders", "ddl"}, Every: time.Second, State: "state.jsonl"})
//	defer sim.Close()
//	err = sim.Run(ctx) // until ctx ends
//
// The ids of transactions, which count reads too, do not come back. What clients write is not in the file. A simulation that clients wrote to is noticed when it is resumed, and refused.
package simulate
