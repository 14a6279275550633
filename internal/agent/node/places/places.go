// Package places has where agents work: the labels and the load of a node, by which tasks are placed; the nodes that lend
// agents to it; and the agents, with their workspaces, that it lends to others. Package internal/agent/placement chooses a place,
// package internal/agent/lending borrows and lends.
package places

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm/provider"
	"symbio/agent/node/config"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/node/state"
	"symbio/internal/agent/node/tasks"
	"symbio/internal/agent/placement"
	"symbio/internal/agent/team"
	"symbio/internal/agent/workspace"
	"symbio/internal/agent/workspace/transfer"
	"symbio/internal/security/visible"
	"symbio/security/identity"
)

// Config sets up Places. All fields are required.
type Config struct {
	Self       community.Member // this node, with its labels
	Settings   config.Config
	Kept       state.Node
	Community  *community.Community
	Events     *event.Stream // of this node
	Definition func(name string) (definition.Definition, error)
	Drain      *tasks.Gate // no agents are lent while it drains, and tasks go to other nodes
	Logger     *slog.Logger
}

// Places are where agents work. It is safe for concurrent use after Offer.
type Places struct {
	// Chooser gives the sub-agents of this node's agents their places.
	Chooser *placement.Chooser
	// Workspaces sends and takes the workspaces of agents.
	Workspaces *transfer.Server

	cfg    Config
	lender *lending.Lender // nil = no agents are lent
}

// cachedWorkspaces is how many workspaces of the largest size are kept, so that only changes are sent again: two of each
// of the four nodes that a transfer.Server serves.
const cachedWorkspaces = 8

// Open returns Places, which lend nothing until Offer. It removes the workspaces that an earlier process left behind.
func Open(cfg Config) (_ *Places, err error) {
	p, want, w := &Places{cfg: cfg}, cfg.Settings.Placement, cfg.Settings.Workspaces()
	p.Chooser = placement.New(placement.Config{
		Self: cfg.Self, Strategy: want.Strategy, Local: want.Local, Queue: want.Queue, Draining: cfg.Drain.Draining.IsOn,
		Lenders: func(definition string) []community.Member {
			return lending.Lenders(cfg.Community, cfg.Self.Node, definition)
		},
		Load: func(ctx context.Context, node community.Member) (placement.Load, error) {
			return lending.Load(ctx, cfg.Community, cfg.Self, node)
		},
	})
	sent, leases := state.Workspaces(cfg.Kept)
	offers, err := team.Salvage(context.Background(), leases)
	for _, offer := range offers {
		cfg.Events.Warn("the node was killed while an agent worked: "+offer, "")
	}
	if err != nil {
		cfg.Events.Warn(err.Error(), "take what you need of it, and remove it")
	}
	p.Workspaces, err = transfer.New(transfer.Config{
		Dir: sent, Leases: leases, Cache: cachedWorkspaces * int64(w.MaxSize), MaxMessage: cfg.Settings.Limits.Message,
		Limits: workspace.Limits{Size: int64(w.MaxSize)},
	})
	return p, err
}

// HasLent reports whether an agent is lent to a node.
func (p *Places) HasLent(to community.NodeID, m community.MemberID) bool {
	return p.lender != nil && p.lender.Has(to, m)
}

// Lent returns how many agents each node has borrowed.
func (p *Places) Lent() map[community.NodeID]int {
	if p.lender == nil {
		return nil
	}
	return p.lender.Lent()
}

// concurrentTransfers is how many calls of transfers are served at a time. Each
// takes up to 4 MiB of memory, and a transfer makes four at once.
const concurrentTransfers = 32

// Offer offers agents.spawn, with which nodes that authorize allows
// spawn agents here, and agents.workspace, with which they send the files that
// their agents here work with, and fetch what these changed.
func (p *Places) Offer(c config.Capability, spawn func(context.Context, *lending.Lease) (community.Member, error),
	offer func(community.Capability, community.Provider, ...community.OfferOption) error) error {
	cfg := c.LenderConfig(p.cfg.Settings.Budget)
	for _, name := range c.Agents {
		def, err := p.cfg.Definition(name)
		if err != nil {
			return err
		}
		cfg.Definitions = append(cfg.Definitions, def)
	}
	cfg.Community, cfg.Logger, cfg.AskTimeout = p.cfg.Community, p.cfg.Logger, p.cfg.Settings.Approvals.Timeout
	cfg.Load, cfg.Spawn, cfg.Busy = p.load, spawn, p.cfg.Drain.Check
	cfg.Events = func() *event.Subscription { return p.cfg.Events.Subscribe(time.Time{}) }
	p.lender = lending.NewLender(cfg)
	capability, err := p.lender.Capability()
	if err != nil {
		return err
	}
	capability.Description = cmp.Or(c.Description, capability.Description)
	if !p.cfg.Settings.Workspaces().Off {
		files := community.Capability{Name: transfer.Capability, Description: "Takes the files of agents that other nodes spawn here, and gives back what they changed."}
		if err := offer(files, p.Workspaces.Provider(p.lender.Checkout), community.WithConcurrency(concurrentTransfers)); err != nil {
			return err
		}
	}
	return offer(capability, p.lender.Provide, community.WithMaxCallDuration(p.lender.MaxCallTime()))
}

// Loads returns the load of this node and of those that lend agents to it.
func (p *Places) Loads(ctx context.Context) map[community.MemberID]placement.Load {
	all := p.Chooser.Loads(ctx)
	own := p.load()
	own.Free = all[p.cfg.Self.ID].Free
	all[p.cfg.Self.ID] = own
	return all
}

// load returns what runs and waits on this node and its free memory, for the nodes that it lends agents to.
func (p *Places) load() placement.Load {
	return placement.Load{Running: len(p.cfg.Community.Catalog().Members) - 1, Waiting: p.Chooser.Waiting(), Memory: freeMemory()} // minus the node itself
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

// Labels returns what other nodes see of this node, by which tasks are placed: its certified labels, those of the
// configuration and what the node knows of itself.
func Labels(c config.Config, certified identity.Labels, version string, definitions map[string]definition.Definition) map[string]string {
	all := map[string]string{"system": runtime.GOOS, "arch": runtime.GOARCH, "cores": strconv.Itoa(runtime.NumCPU())}
	if version != "" {
		all["version"] = visible.Prefix(version, 100)
	}
	maps.Copy(all, c.Labels) // Check refuses the keys above
	maps.Copy(all, certified.Map())
	// The device nodes of NVIDIA's driver: one for each GPU, and others without a number.
	if gpus, err := filepath.Glob("/dev/nvidia[0-9]*"); err == nil && len(gpus) > 0 {
		all["gpu"] = strconv.Itoa(len(gpus))
	}
	if models := modelNames(c, definitions); models != "" {
		all["model"] = models
	}
	return all
}

// modelNames returns the models that the configuration, its capabilities and the definitions name,
// separated by commas, as far as they fit into the metadata of a member. The files of scripted models
// stay private, and models of other nodes are theirs.
func modelNames(c config.Config, definitions map[string]definition.Definition) string {
	names := []string{string(c.Model)}
	for _, offered := range c.Capabilities {
		names = append(names, string(offered.Model))
	}
	for _, d := range definitions {
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
