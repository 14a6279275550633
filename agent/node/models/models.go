// Package models opens the models of a node, offers one to other nodes, and uses those that other nodes offer.
package models

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
	"symbio/agent/llm/replay"
	"symbio/agent/node/config"
	"symbio/community"
)

// Community is what models need of the node's community; *community.Community is one.
type Community interface {
	WhoProvides(capability string) []community.Member
	Capability(node community.NodeID, name string) (community.Capability, bool)
	InvokeStream(ctx context.Context, id community.MemberID, capability string, payload community.Signal, onUpdate func(community.Update)) (community.Reply, error)
}

// Config sets up a Models.
type Config struct {
	Settings  config.Config
	Getenv    func(string) string
	Community Community
	// Funcs are models made in Go, by their names.
	Funcs map[string]llm.Model
	// Record keeps what is said with the servers of models, Replay answers from such a record. nil = neither.
	Record *replay.Recorder
	Replay *replay.Player
	Logger *slog.Logger
}

// Models opens models. It is safe for concurrent use.
type Models struct {
	cfg  Config
	http *http.Client
}

// New returns a Models. Nothing is opened before it is needed.
func New(cfg Config) *Models {
	m := &Models{cfg, WebClient()}
	switch {
	case cfg.Replay != nil:
		m.http = &http.Client{Transport: cfg.Replay}
	case cfg.Record != nil:
		m.http = &http.Client{Transport: cfg.Record}
	}
	return m
}

// Close ends idle connections.
func (m *Models) Close() { m.http.CloseIdleConnections() }

// Open opens the model, or the list of them, of that name; "" is the node's own, or the recorded one. The keys come from the
// environment at that moment, and so does a proxy.
func (m *Models) Open(ctx context.Context, name string) (llm.Model, error) {
	own := string(m.cfg.Settings.Model)
	from := Providers(m.cfg.Settings, m.cfg.Getenv, m.cfg.Funcs)
	from.Logger, from.HTTP, from.Peer = m.cfg.Logger, m.http, m.ofPeer
	if m.cfg.Replay == nil {
		return from.OpenList(ctx, cmp.Or(name, own))
	}
	for _, key := range []*llm.Secret{&from.OpenAIKey, &from.AnthropicKey} {
		if key.Empty() {
			*key = llm.NewSecret("replay") // no server is asked
		}
	}
	opened, err := from.OpenList(ctx, cmp.Or(name, m.cfg.Replay.Spec(), own))
	if err != nil {
		return nil, err
	}
	return m.cfg.Replay.Model(opened), nil
}

// Providers are where a node with this configuration and environment looks for models. Other nodes are not among them.
func Providers(c config.Config, getenv func(string) string, funcs map[string]llm.Model) provider.Config {
	from := provider.FromEnv(getenv)
	c.ApplyProviders(&from)
	from.Funcs = funcs
	return from
}

// WebClient reaches models over the network, through the proxy that the environment names.
func WebClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyFromEnvironment
	return &http.Client{Transport: transport}
}
