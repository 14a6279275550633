package shell_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"symbio/security/permission/shell"
)

func awkAsks(program string) bool {
	return shell.Guard(shell.Argv("awk", program, "x").Commands[0], 1) != ""
}

func TestAwkProgramsAreReadWithAPositiveList(t *testing.T) {
	for _, plain := range []string{
		`{print $1}`, `{print $1, $3}`, `NR==1`, `NR>=10 && NR<=20`, `/re/ {print}`, `!/^#/`, `/a/,/b/`, `{s+=$1} END {print s/NR}`, `{s += $5} END {print s/1024/1024 " MB"}`, `$3 > 5`, `$3 > 5 {print $1}`,
		`!seen[$0]++`, `length($0) > 80`, `length > 80`, `BEGIN { FS=":"; OFS="\t" } { $1=$1; print }`, `{gsub(/[0-9]+/, "N"); print}`, `$1 ~ /^a\/b$/ && $2 !~ /[[:space:]]x/`,
		`{c[$1]++} END {for (w in c) print w, c[w]}`, `{a[NR]=$0} END {for (i=NR; i>0; i--) print a[i]}`, `{printf "%-10s | %s -> %.2f\n", $1, $2, ($3+$4)/2}`, `{if ($2>max) {max=$2}} END {print max}`,
		`ORS=NR%2?",":"\n"`, "NR==1 {print}\n/x/ {print $NF}\nEND {print NR}", `{print $(NF-1), toupper(substr($0, 1, 3))}`, `match($0, /x(.*)y/) {print RSTART, RLENGTH}`, `{print $1/2, $2/3}`, `{ split($0, a, "/"); print a[1] }`,
	} {
		if awkAsks(plain) {
			t.Errorf("asks about %q", plain)
		}
	}
	for _, asks := range []string{
		`BEGIN{print /"/;system("touch FLAG");print /"/}`, `BEGIN{x = /"/;system("touch FLAG");print /"/}`, `BEGIN{if(1)/"/;system("touch FLAG");print /"/}`, "BEGIN{switch(x){case /\"/:system(\"touch FLAG\");case /\"/:}}",
		"BEGIN{print 1,\n2 > \"FLAG\"}", "BEGIN{print 1 &&\n2 > \"FLAG\"}", "BEGIN{print 1 ||\n2 > \"FLAG\"}", "BEGIN{print 1 \\\n > \"FLAG\"}", "BEGIN{print 1 # \\\n> \"FLAG\"}", "BEGIN{print(1)(2) > \"FLAG\"}",
		`BEGIN{"touch FLAG" | getline}`, `BEGIN{"touch FLAG" |& getline}`, `BEGIN{while (getline l < "/etc/passwd") print l}`, `BEGIN{print | "touch FLAG"}`, `BEGIN{system ("touch FLAG")}`, `BEGIN{$system("touch FLAG")}`, `BEGIN{1system("touch FLAG")}`,
		`BEGIN{awk::system("touch FLAG")}`, `BEGIN{f="system";@f("touch FLAG")}`, `@load "filefuncs"; BEGIN{chdir("/")}`, `@include "x"`, `BEGIN{print ENVIRON["HOME"]}`, `BEGIN{ARGV[1]=".env"; ARGC=2} {print}`, `BEGIN{printf "x" > "FLAG"}`,
		`BEGIN{x=1; y = x/"/;system("touch FLAG");print /"/}`, "BEGIN{x=1; x\n/\"/;system(\"touch FLAG\");print /\"/}", `/[/"]/;BEGIN{system("touch FLAG")}/["]/`, `/[]/"]/;BEGIN{system("touch FLAG")}/["]/`, `/[[:alpha:]/"]/{system("touch FLAG")}/"/`, `/[\]/"]/{system("touch FLAG")}/"/`,
		"BEGIN{print \"a\\\nb\"}", `BEGIN{extension("x.so")}`, `function f(x){print x > "FLAG"} {f(1)}`, `{print > $1}`, `{close("x")}`, `{print $1 >> "FLAG"}`,
	} {
		if !awkAsks(asks) {
			t.Errorf("does not ask about %q", asks)
		}
	}
}

// Random programs that are said to be plain do nothing in any awk that is installed. SYMBIO_FUZZ_SEED and
// SYMBIO_FUZZ_SCRIPTS set another run.
func TestPlainAwkProgramsDoNothing(t *testing.T) {
	seed, n := uint64(1), 20
	if v, err := strconv.ParseUint(os.Getenv("SYMBIO_FUZZ_SEED"), 10, 64); err == nil {
		seed = v
	}
	if v, err := strconv.Atoi(os.Getenv("SYMBIO_FUZZ_SCRIPTS")); err == nil {
		n = v / 10
	}
	g := rand.New(rand.NewPCG(seed, 4))
	tokens := strings.Split(`/ / / " " /"/ /x/ system("touch~FLAG") system("touch~FLAG") print print printf~"x" >"FLAG" >>"FLAG" |"touch~FLAG" "touch~FLAG"|getline getline~x<"y" \ # , && || ! ~ = == += x x x y 1 2 $1 $ NF NR ( ) ( ) { } { } [ ] ; ; ^ ^ + - ++ % * ? : if(1) else case switch(x) default do in length substr(x,1) "a" "a/b" /[/ /[]/ /[^/ [^]/ \/ \" @ & | < > BEGIN END next exit return x=1; case=1;`, " ")
	awks := [][]string{{"mawk"}, {"gawk"}, {"original-awk"}, {"busybox", "awk"}, {"awk"}}
	tried := 0
	for tries := 0; tried < n && tries < 2000*n; tries++ {
		b := strings.Builder{}
		b.WriteString([]string{"BEGIN{", "BEGIN{", "BEGIN{x=1;", "{", "", "/x/"}[g.IntN(6)])
		for range 1 + g.IntN(9) {
			b.WriteString(strings.NewReplacer("^", "\n", "~", " ").Replace(tokens[g.IntN(len(tokens))]) + []string{"", "", " "}[g.IntN(3)])
		}
		b.WriteString([]string{"}", "}", "", ";print /\"/}"}[g.IntN(4)])
		program := b.String()
		if awkAsks(program) || !strings.Contains(program, "FLAG") && g.IntN(20) > 0 {
			continue
		}
		tried++
		for _, argv := range awks {
			if _, err := exec.LookPath(argv[0]); err != nil {
				continue
			}
			dir := t.TempDir()
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
			cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], program)...)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader("x y\n1 2\n")
			_ = cmd.Run() // most are no programs
			stop()
			if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
				t.Fatalf("%v made %v (%v) by %q", argv, made, err, program)
			}
		}
	}
	t.Logf("%d programs were run", tried)
}
