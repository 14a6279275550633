package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"symbio/agent/llm"
)

// maxServiceResults is how many results Brave and Tavily return at most for one request.
const maxServiceResults = 20

// brave returns the API of Brave Search (api-dashboard.search.brave.com). It has 10 pages; it counts
// them from 0.
func brave() engineAPI {
	return engineAPI{
		name: "Brave Search", keyVar: "BRAVE_API_KEY", url: "https://api.search.brave.com", path: "res/v1/web/search", forbidden: "check BRAVE_API_KEY and its plan",
		request: func(ctx context.Context, at url.URL, key llm.Secret, query string, page int) (*http.Request, error) {
			if page > 10 {
				return nil, errors.New("there are no more than 10 pages; ask with other words")
			}
			at.RawQuery = url.Values{"q": {query}, "count": {strconv.Itoa(maxServiceResults)}, "offset": {strconv.Itoa(page - 1)},
				"result_filter": {"web"}, "text_decorations": {"false"}}.Encode()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
			if err == nil {
				r.Header.Set("X-Subscription-Token", key.Reveal())
			}
			return r, err
		},
	}
}

// tavily returns the API of Tavily (docs.tavily.com). It has one page.
func tavily() engineAPI {
	return engineAPI{
		name: "Tavily", keyVar: "TAVILY_API_KEY", url: "https://api.tavily.com", path: "search", forbidden: "check TAVILY_API_KEY and its plan",
		request: func(ctx context.Context, at url.URL, key llm.Secret, query string, page int) (*http.Request, error) {
			if page > 1 {
				return nil, fmt.Errorf("there is one page of %d results; ask with other words", maxServiceResults)
			}
			body, err := json.Marshal(map[string]any{"query": query, "max_results": maxServiceResults})
			if err != nil {
				return nil, err
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
			if err == nil {
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+key.Reveal())
			}
			return r, err
		},
	}
}
