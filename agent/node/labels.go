package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"symbio/agent/lending"
	"symbio/agent/llm/provider"
	"symbio/agent/placement"
	"symbio/community"
	"symbio/security/visible"
)

// labelsOf returns what other nodes see of this node, by which tasks are placed: its labels of the
// configuration and what the node knows of itself.
func labelsOf(p *parts) map[string]string {
	all := map[string]string{"system": runtime.GOOS, "arch": runtime.GOARCH, "cores": strconv.Itoa(runtime.NumCPU())}
	maps.Copy(all, p.cfg.Settings.Labels) // Check refuses the keys above
	// The device nodes of NVIDIA's driver: one for each GPU, and others without a number.
	if gpus, err := filepath.Glob("/dev/nvidia[0-9]*"); err == nil && len(gpus) > 0 {
		all["gpu"] = strconv.Itoa(len(gpus))
	}
	if models := modelNames(p); models != "" {
		all["model"] = models
	}
	return all
}

// modelNames returns the models that the configuration, its capabilities and the definitions name,
// separated by commas, as far as they fit into the metadata of a member. The files of scripted models
// stay private, and models of other nodes are theirs.
func modelNames(p *parts) string {
	names := []string{string(p.cfg.Settings.Model)}
	for _, c := range p.cfg.Settings.Capabilities {
		names = append(names, string(c.Model))
	}
	for _, d := range p.agents {
		names = append(names, d.Model)
	}
	found := map[string]bool{}
	for _, list := range names {
		specs, _ := provider.ParseList(list) // the names are checked where they stand
		for _, s := range specs {
			if s.Provider == "scripted" {
				found[s.Provider] = true
			} else if s.Provider != "peer" && s.Name != "" {
				found[s.String()] = true
			}
		}
	}
	return visible.Prefix(strings.Join(slices.Sorted(maps.Keys(found)), ","), 1000)
}

// newChooser returns the Chooser that gives the sub-agents of this node's agents their places.
func newChooser(p *parts) *placement.Chooser {
	self := community.Member{ID: community.MemberID(p.id), Node: p.id, Name: p.name, Metadata: labelsOf(p)}
	want := p.cfg.Settings.Placement
	return placement.New(placement.Config{
		Self: self, Strategy: want.Strategy, Local: want.Local, Queue: want.Queue,
		Lenders: func(definition string) []community.Member {
			return lending.Lenders(p.community, p.id, definition)
		},
		Load: func(ctx context.Context, node community.Member) (placement.Load, error) {
			return lending.Load(ctx, p.community, self, node)
		},
	})
}

// loads returns the load of this node and of those that lend agents to it.
func loads(ctx context.Context, p *parts) map[community.MemberID]placement.Load {
	all := p.chooser.Loads(ctx)
	own := loadOf(p)
	own.Free = all[community.MemberID(p.id)].Free
	all[community.MemberID(p.id)] = own
	return all
}

// loadOf returns what runs and waits on this node and its free memory, for the nodes that it lends agents to.
func loadOf(p *parts) placement.Load {
	return placement.Load{Running: len(p.community.Catalog().Members) - 1, Waiting: p.chooser.Waiting(), Memory: freeMemory()} // minus the node itself
}

// freeMemory returns how much memory programs may take without swapping, in bytes; 0 where the
// system does not say it in a file, as only Linux does.
func freeMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kib int64
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}
