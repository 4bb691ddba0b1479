"""``python -m headwater``, which is also how ``torchrun -m headwater train …`` starts each process."""

from headwater.cli.main import main

if __name__ == "__main__":
    main()
