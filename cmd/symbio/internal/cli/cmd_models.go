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

// listModelsTimeout is how long the providers may take to list what they have.
const listModelsTimeout = 10 * time.Second

// modelJSON is a model that can be named, or why a provider has none; the names are a contract.
type modelJSON struct {
	Model    string `json:"model"` // as --model takes it; "" = none
	Provider string `json:"provider"`
	From     string `json:"from"` // what sets it up: a variable, an address, a node's name
	Why      string `json:"why"`  // why there is none, and what to do
}

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
	cmd.Flags().StringVar(&file, "config", "", "the configuration to read")
	return cmd
}

// providerModels are those of the providers.
func providerModels(ctx context.Context, o node.Config) (all []modelJSON) {
	from := o.Providers()
	web := models.WebClient()
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

// peerModels are those that other nodes offer, if one is running here to ask.
func peerModels(ctx context.Context, env *command.Env) (all []modelJSON, err error) {
	client, conn, err := env.Dial()
	if errors.Is(err, command.ErrNoNode) {
		return []modelJSON{{Provider: "peer", Why: "no node is running here that could ask others; start one with symbio up"}}, nil
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
