package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"symbio/agent/llm"
)

// Models asks a server for the names of its models, in its order. It asks once and does not wait
// longer than cfg.Connect for a connection and cfg.FirstToken for the answer. cfg.Model is not used.
func Models(ctx context.Context, cfg Config) ([]string, error) {
	if cfg.Name == "" {
		cfg.Name = "list"
	}
	m, err := open(cfg)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	x := m.begin(ctx)
	defer x.close()
	req, err := m.request(x.ctx, http.MethodGet, "models", nil)
	if err != nil {
		return nil, err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, x.explain(m.unreachable(err))
	}
	x.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		return nil, x.explain(m.refused(resp))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
	if err != nil {
		return nil, x.explain(m.fail(llm.ErrCut, 0, err.Error()))
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, m.fail(llm.ErrMalformed, 0, "the list of models is not JSON as expected")
	}
	var names []string
	for _, d := range list.Data {
		if d.ID != "" {
			names = append(names, d.ID)
		}
	}
	return names, nil
}
