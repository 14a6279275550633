package control

import (
	"runtime/metrics"
	"strings"

	"symbio/discovery"
	symbiov1 "symbio/proto/symbio/v1"
)

// Process returns the memory and the number of goroutines of this process. It reads
// runtime/metrics, which does not stop the world, so that it may be called often.
func Process() *symbiov1.Process {
	all := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(all)
	figure := func(i int) uint64 {
		if all[i].Value.Kind() != metrics.KindUint64 {
			return 0 // another version of Go may not have this metric
		}
		return all[i].Value.Uint64()
	}
	// The memory without the pages that the runtime has returned to the operating system.
	return &symbiov1.Process{Goroutines: uint32(figure(0)), Heap: float64(figure(1)), Memory: float64(figure(2) - figure(3))}
}

// SourceHealth returns the health of each source of addresses, in the order of
// trust. A source without a health check has no problems.
func SourceHealth(sources []discovery.Source) []*symbiov1.SourceHealth {
	out := make([]*symbiov1.SourceHealth, len(sources))
	for i, s := range sources {
		out[i] = &symbiov1.SourceHealth{Name: s.Name()}
		h, ok := s.(discovery.Healther)
		if !ok {
			continue
		}
		// Health joins one error per problem, so each line is one problem.
		if err := h.Health(); err != nil {
			out[i].Problems = strings.Split(strings.TrimSpace(err.Error()), "\n")
		}
	}
	return out
}
