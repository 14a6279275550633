package node

import (
	"context"
	"errors"

	"symbio/agent/tool/builtin"
	"symbio/cmd/symbio/internal/config"
	"symbio/security/sandbox"
)

// Refusing is a capability whose calls will be refused, because the sandbox cannot hold its command here.
type Refusing struct {
	Capability string
	// Why names what is lacking, Mend what to do about it.
	Why, Mend string
}

// Refusing finds the capabilities of the configuration whose calls a node with these options refuses, where held is
// what the machine can hold.
func (o Options) Refusing(held *sandbox.Box) (all []Refusing, err error) {
	files, err := builtin.Open(o.Workspace())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	for _, c := range o.Config.Capabilities {
		s := o.Config.Sandbox.Over(c.Sandbox)
		if len(c.Exec) == 0 || s.Off() {
			continue
		}
		policy, err := s.Policy(files.Dir(), o.Home)
		if err != nil {
			return all, err
		}
		if r, refused := refusal(c, held, policy); refused {
			all = append(all, r)
		}
	}
	return all, nil
}

func refusal(c config.Capability, held *sandbox.Box, p sandbox.Policy) (Refusing, bool) {
	err := held.Check(p)
	if err == nil {
		return Refusing{}, false
	}
	r := Refusing{Capability: c.Name, Why: err.Error()}
	var refused *sandbox.Refusal
	if errors.As(err, &refused) {
		r.Why = refused.Lacking()
		if refused.Mend != "" {
			r.Mend = refused.Mend + "; or "
		}
	}
	if held.Check(sandbox.Restrictive()) == nil {
		r.Mend += "if it only reads, write sandbox: {preset: restrictive} beside it in the configuration; or "
	}
	r.Mend += "if you trust it with all that you may do yourself, write sandbox: {preset: off} beside it in the configuration"
	return r, true
}

// tellRefusing says, once, which capabilities will refuse their calls. Who runs the node is there to mend it; who calls
// is not.
func (n *Node) tellRefusing(context.Context) error {
	for _, c := range n.execs {
		held, err := c.box()
		if err != nil {
			return err
		}
		if r, refused := refusal(c.Capability, held, c.policy); refused {
			n.log.Warn("capability refuses its calls", "capability", r.Capability, "why", r.Why)
			n.events.Publish("warning", "", warningEvent{Capability: r.Capability, Why: "its calls are refused: " + r.Why, Mend: r.Mend})
		}
	}
	return nil
}

// warningEvent is something for whoever runs the node to mend.
type warningEvent struct {
	Capability string `json:"capability,omitempty"`
	Why        string `json:"why"`
	Mend       string `json:"mend,omitempty"`
}
