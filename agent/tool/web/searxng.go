package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"symbio/agent/llm"
)

// searxng returns the API of an instance of SearXNG (docs.searxng.org/dev/search_api.html). One page
// has as many results as the instance is set to. It answers 403 if its settings do not allow
// the JSON format.
func searxng() engineAPI {
	return engineAPI{
		name: "SearXNG", path: "search", forbidden: "its settings.yml has to list json under search.formats",
		request: func(ctx context.Context, at url.URL, _ llm.Secret, query string, page int) (*http.Request, error) {
			at.RawQuery = url.Values{"q": {query}, "format": {"json"}, "pageno": {strconv.Itoa(page)}}.Encode()
			return http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		},
	}
}
