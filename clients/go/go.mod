module demur

go 1.18
