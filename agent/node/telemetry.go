package node

import (
	"context"

	"symbio/agent/node/telemetry"
	"symbio/transport/grpcpeer"
)

// openTelemetry makes what the environment and the settings ask for, and lets the log go there, too.
func (n *Node) openTelemetry() (err error) {
	self, err := n.kept.Identity()
	if err != nil {
		return err
	}
	n.telemetry, err = telemetry.New(context.Background(), telemetry.Config{
		Getenv: n.cfg.Getenv, Prometheus: n.cfg.Settings.Metrics != "", Name: n.name, ID: string(self.ID()), Version: n.cfg.Version, State: n.measured, Logger: n.cfg.Logger,
	})
	if n.telemetry != nil {
		n.cfg.Logger = n.telemetry.Logger(n.cfg.Logger)
		n.cfg.Middleware = n.telemetry.Agents(n.cfg.Middleware)
	}
	return err
}

// closeTelemetry sends what is left.
func (n *Node) closeTelemetry() {
	if n.telemetry != nil {
		n.telemetry.Close()
	}
}

// measured returns the figures of the node at this moment.
func (n *Node) measured() (s telemetry.State) {
	p := n.parts.Load()
	if p == nil { // it is starting
		return s
	}
	for _, other := range p.network.Nodes() {
		if other.State == grpcpeer.StateConnected || other.State == grpcpeer.StateSelf {
			s.Nodes++
		}
	}
	s.Members, s.Approvals = len(p.community.Members()), p.approvals.Waiting()
	return s
}

// openMetrics opens the address of the metrics and the health, if there is one.
func openMetrics(p *parts) (err error) {
	p.health = telemetry.NewHealth()
	if at := p.cfg.Settings.Metrics; at != "" {
		p.metrics, err = telemetry.Listen(at, p.telemetry.Metrics(), p.health)
	}
	return err
}
