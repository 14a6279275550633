package main

func Example() {
	main()
	// Output:
	// [apollo eclipse home moon sun tides] <nil>
	// 7 read, 7 seen, [nowhere: no such page]
}
