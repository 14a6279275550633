package node

import (
	"context"
	"net/http"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
)

// model opens the model of that name; "" is the configured one. The keys come from the environment
// at that moment, and a proxy too, as the user has set it there.
func (n *Node) model(ctx context.Context, name string) (llm.Model, error) {
	if name == "" {
		name = n.opts.Config.Model
	}
	spec, err := provider.Parse(name)
	if err != nil {
		return nil, err
	}
	from := provider.FromEnv(n.opts.Getenv)
	from.Logger = n.log
	from.HTTP = n.web
	return from.Open(ctx, spec)
}

// WebClient is how models are reached.
func WebClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyFromEnvironment
	return &http.Client{Transport: transport}
}
