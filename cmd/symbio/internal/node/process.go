package node

import (
	"runtime/metrics"

	symbiov1 "symbio/proto/symbio/v1"
)

// process measures what this process takes. It does not stop the world, so that anybody may ask often.
func process() *symbiov1.Process {
	all := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(all)
	figure := func(i int) uint64 {
		if all[i].Value.Kind() != metrics.KindUint64 {
			return 0 // a later Go may not measure it any more
		}
		return all[i].Value.Uint64()
	}
	return &symbiov1.Process{Goroutines: figure(0), Heap: figure(1), Memory: figure(2) - figure(3)}
}
