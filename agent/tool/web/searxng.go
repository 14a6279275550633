package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"symbio/agent/llm"
)

// searxAnswer is the part of SearXNG's response that is used. Engines write null where they have no
// value.
type searxAnswer struct {
	Results []struct {
		URL     string `json:"url"`
		Title   string `json:"title"`
		Content string `json:"content"`
	} `json:"results"`
	// Unresponsive are pairs of the name of an engine and a reason.
	Unresponsive [][]any `json:"unresponsive_engines"`
}

// searxng returns the API of an instance of SearXNG (docs.searxng.org/dev/search_api.html). One page
// has as many results as the instance is set to. 403 is what it answers if its settings do not allow
// the JSON format.
func searxng() engineAPI {
	return engineAPI{
		name: "SearXNG", path: "search", forbidden: "its settings.yml has to list json under search.formats",
		request: func(ctx context.Context, at url.URL, _ llm.Secret, query string, page int) (*http.Request, error) {
			at.RawQuery = url.Values{"q": {query}, "format": {"json"}, "pageno": {strconv.Itoa(page)}}.Encode()
			return http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		},
		found: func(body []byte) (f Found, err error) {
			var a searxAnswer
			if err := json.Unmarshal(body, &a); err != nil {
				return Found{}, err
			}
			for _, r := range a.Results {
				f.Hits = append(f.Hits, Hit{Title: r.Title, URL: r.URL, Excerpt: r.Content})
			}
			for _, pair := range a.Unresponsive {
				if len(pair) > 0 {
					if engine, ok := pair[0].(string); ok {
						f.Missing = append(f.Missing, engine)
					}
				}
			}
			return f, nil
		},
	}
}
