package node

import (
	"slices"

	"symbio/agent/tool"
	"symbio/agent/tool/peerskill"
	"symbio/agent/tool/web"
)

// tools are those that belong to no agent in particular.
func (n *Node) tools() ([]tool.Tool, error) {
	commands, err := n.commands()
	if err != nil {
		return nil, err
	}
	all := slices.Concat(n.files.Tools(), commands, []tool.Tool{web.New(web.Config{}).Tool()})
	search, err := n.opts.Config.Web.Search.Searcher()
	if err != nil {
		return nil, err
	}
	if search != nil {
		all = append(all, web.SearchTool(search))
	}
	return append(all, peerskill.Tool(n.fetchSkill)), nil
}
