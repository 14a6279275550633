package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/llm/chat"
	"symbio/agent/node"
	"symbio/agent/node/models"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// listModelsTimeout is how long the providers may take to list their models, all at once. A
// provider that does not answer is a row with that reason.
const listModelsTimeout = 10 * time.Second

// modelJSON is a model that can be named, or the reason why a provider has none. The JSON names are
// a contract.
type modelJSON struct {
	// Model is the name as --model takes it; "" if there is none.
	Model string `json:"model"`
	// Provider is openai, anthropic, ollama or peer.
	Provider string `json:"provider"`
	// From is where it is set up: a variable, an address, or the name of a node. It never contains
	// a key.
	From string `json:"from"`
	// Why says why there is none and what to do.
	Why string `json:"why"`
}

// cmdModels returns the command models. A provider that cannot be asked is a row with the reason,
// not an error. It works without a running node. Its exit status is 0 even if no provider works.
func cmdModels(env *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:  "models",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := env.LoadConfig(file)
			if err != nil {
				return err
			}
			opts, err := env.NodeOptions(c)
			if err != nil {
				return err
			}
			all, err := peerModels(cmd.Context(), env)
			if err != nil {
				return err
			}
			all = append(providerModels(cmd.Context(), opts), all...)
			if !env.JSON {
				env.Notef("the configured model is %s", c.Model)
			}
			return command.PrintList(env, all, []string{"MODEL", "PROVIDER", "FROM", "WHY NOT"}, func(m modelJSON) []string {
				return []string{m.Model, m.Provider, m.From, m.Why}
			})
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` (default symbio/symbio.yaml in your configuration directory)")
	return cmd
}

// providerModels returns the models that the configured providers list. It asks them over the
// network. They are asked at the same time, and
// listModelsTimeout is for all of them. The result has at
// least one element for each provider that fails.
func providerModels(ctx context.Context, o node.Config) (all []modelJSON) {
	from := o.Providers()
	web := models.WebClient()
	// Connections that are kept for reuse would keep their goroutines, too.
	defer web.CloseIdleConnections()
	from.HTTP = web
	ctx, stop := context.WithTimeout(ctx, listModelsTimeout)
	defer stop()
	for _, l := range from.List(ctx) {
		if l.Err != nil {
			all = append(all, modelJSON{Provider: l.Provider, From: l.From, Why: l.Err.Error()})
		}
		for _, m := range l.Models {
			all = append(all, modelJSON{Model: l.Provider + ":" + m, Provider: l.Provider, From: l.From})
		}
	}
	return all
}

// peerModels returns the models that other nodes offer. Only a running node knows them, so without
// one there is a single row that says so. Models of this node are left out, because providerModels
// has them. The error is that of the running node.
func peerModels(ctx context.Context, env *command.Env) (all []modelJSON, err error) {
	client, conn, err := env.Dial()
	if errors.Is(err, command.ErrNoNode) {
		return []modelJSON{{Provider: "peer", Why: "no node is running here to ask others; start one with symbio up"}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := client.Capabilities(ctx, &symbiov1.CapabilitiesRequest{Name: chat.Capability})
	if err != nil {
		return nil, err
	}
	for _, c := range reply.GetCapabilities() {
		if c.GetLocal() {
			continue
		}
		// A node writes the names of the models that it offers into the schema of its capability
		// model.chat.
		for _, name := range chat.Offered(c.GetCapability().GetInputSchema()) {
			m := modelJSON{Model: "peer:" + c.GetNodeName() + "/" + name, Provider: "peer", From: c.GetNodeName()}
			if !c.GetAvailable() {
				m.Why = "the node cannot be reached now"
			}
			all = append(all, m)
		}
	}
	return all, nil
}
