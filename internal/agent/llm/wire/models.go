package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"symbio/agent/llm"
)

// maxList bounds a list of models, in bytes; a gateway may list thousands of models.
const maxList = 8 << 20

// Models asks a server for the names of its models, in its order. Both APIs have the same list at
// the path models. It asks once, without retries, and does not wait longer than cfg.Connect for a
// connection and cfg.FirstToken for the answer. cfg.Model is not used. Errors are *llm.Error, those
// of ctx, or about a setting.
func Models(ctx context.Context, cfg Config, d Dialect) ([]string, error) {
	cfg.Name = cmp.Or(cfg.Name, "list")
	s, err := open(cfg, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Provider, err)
	}
	x, err := s.Ask(ctx, "models", nil)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	body, err := io.ReadAll(io.LimitReader(x.Body, maxList))
	if err != nil {
		return nil, x.Explain(s.Fail(llm.ErrCut, 0, err.Error()))
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, s.Fail(llm.ErrMalformed, 0, "the list of models is not JSON as expected")
	}
	var names []string
	for _, d := range list.Data {
		if d.ID != "" {
			names = append(names, d.ID)
		}
	}
	return names, nil
}
