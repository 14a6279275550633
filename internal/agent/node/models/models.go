// Package models opens the models of a node, offers one to other nodes, and
// uses those that other nodes offer.
package models

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
	"symbio/agent/node/config"
	"symbio/community"
	"symbio/internal/agent/llm/replay"
	"symbio/internal/agent/llm/retry"
	"symbio/internal/agent/llm/wire"
	symbiov1 "symbio/proto/symbio/v1"
)

// Community is the part of *community.Community that a Models uses.
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
	// Funcs are models written in Go, by name.
	Funcs map[string]llm.Model
	// Record records the requests to servers of models, Replay answers from
	// such a recording. nil = neither.
	Record *replay.Recorder
	Replay *replay.Replayer
	Logger *slog.Logger
}

// Models opens models by name. It is safe for concurrent use; the opened models
// share one HTTP client, and what each of them learns of a server.
type Models struct {
	cfg  Config
	http *http.Client
	book retry.Book
	// memory bounds the answers that all of them read at the same time.
	memory *wire.Memory
}

// maxAnswers is how many bytes those may have together: hundreds of usual ones.
const maxAnswers = 32 << 20

// New returns a Models. It opens no connection. The caller closes it after the
// last use of its models.
func New(cfg Config) *Models {
	m := &Models{cfg: cfg, http: WebClient(), memory: wire.NewMemory(maxAnswers)}
	switch {
	case cfg.Replay != nil:
		m.http = &http.Client{Transport: cfg.Replay}
	case cfg.Record != nil:
		m.http = &http.Client{Transport: cfg.Record}
	}
	return m
}

// Close closes idle connections.
func (m *Models) Close() { m.http.CloseIdleConnections() }

// Open returns the model of this name, or a list of models for names with
// commas; "" is the model of the configuration, or the model of a replayed
// recording. API keys are read from the environment at this moment. Errors are
// the errors of package provider.
func (m *Models) Open(ctx context.Context, name string) (llm.Model, error) {
	return m.open(ctx, name, Providers(m.cfg.Settings, m.cfg.Getenv, m.cfg.Funcs))
}

func (m *Models) open(ctx context.Context, name string, from provider.Config) (llm.Model, error) {
	own := string(m.cfg.Settings.Model)
	from.Logger, from.HTTP, from.Peer = m.cfg.Logger, m.http, m.peerModel
	from.Retry.Book, from.Retry.Logger, from.Memory = &m.book, m.cfg.Logger, m.memory
	if m.cfg.Replay == nil {
		return from.OpenList(ctx, cmp.Or(name, own))
	}
	from.OpenAIURL = cmp.Or(m.cfg.Replay.OpenAIURL(), from.OpenAIURL)
	for _, key := range []*llm.Secret{&from.OpenAIKey, &from.AnthropicKey} {
		if key.Empty() {
			*key = llm.NewSecret("replay") // required by the client; no server sees it
		}
	}
	opened, err := from.OpenList(ctx, cmp.Or(name, m.cfg.Replay.Spec(), own))
	if err != nil {
		return nil, err
	}
	return m.cfg.Replay.Model(opened), nil
}

// Providers says where models are reached with this configuration and
// environment. Models of other nodes are not included.
func Providers(c config.Config, getenv func(string) string, funcs map[string]llm.Model) provider.Config {
	from := provider.FromEnv(getenv)
	c.Services.Apply(&from)
	from.Funcs = funcs
	return from
}

// Check returns an error if spec is no model, or list of models.
func Check(spec string) error {
	_, err := provider.ParseList(spec)
	return err
}

// WebClient returns a client with connections of its own, which uses the proxy
// of the environment. The caller closes its idle connections.
func WebClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyFromEnvironment
	return &http.Client{Transport: transport}
}

// Health returns the models that are waited for, or asked last, as the command line shows them.
func (m *Models) Health() (list []*symbiov1.ModelHealth) {
	until := func(d time.Duration) *timestamppb.Timestamp {
		if d == 0 {
			return nil
		}
		return timestamppb.New(time.Now().Add(d))
	}
	for _, h := range m.book.Health() {
		list = append(list, &symbiov1.ModelHealth{Model: h.Model, WaitUntil: until(h.Wait), LastUntil: until(h.Avoid), Failures: uint32(h.Failures), Why: h.Err.Error()})
	}
	return list
}
