package node

import (
	"cmp"
	"context"
	"net/http"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
)

// model opens the model, or the list of them, of that name; "" is the configured one, or the recorded one. The keys come
// from the environment at that moment, and a proxy too, as the user has set it there.
func (n *Node) model(ctx context.Context, name string) (llm.Model, error) {
	from := Providers(n.opts)
	from.Logger, from.HTTP, from.Peer = n.log, n.web, n.peerModel
	if n.opts.Replay == nil {
		return from.OpenList(ctx, cmp.Or(name, string(n.opts.Config.Model)))
	}
	for _, key := range []*llm.Secret{&from.OpenAIKey, &from.AnthropicKey} {
		if key.Empty() {
			*key = llm.NewSecret("replay") // nobody is asked
		}
	}
	m, err := from.OpenList(ctx, cmp.Or(name, n.opts.Replay.Spec(), string(n.opts.Config.Model)))
	if err != nil {
		return nil, err
	}
	return n.opts.Replay.Model(m), nil
}

// reach is how models are reached: over the network, with somebody who writes down, or out of a recording.
func (n *Node) reach() *http.Client {
	switch {
	case n.opts.Replay != nil:
		return &http.Client{Transport: n.opts.Replay}
	case n.opts.Record != nil:
		return &http.Client{Transport: n.opts.Record}
	}
	return WebClient()
}

// Providers are where a node with these options looks for models. Other nodes are not among them.
func Providers(o Options) provider.Config {
	from := provider.FromEnv(o.Getenv)
	o.Config.Into(&from)
	return from
}

// WebClient is how models are reached.
func WebClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyFromEnvironment
	return &http.Client{Transport: transport}
}
