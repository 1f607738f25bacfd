"""Django's command line for the shop.

In this directory:

python manage.py migrate
python manage.py runserver
python manage.py standfast_worker      in another terminal

Then: curl -X POST http://127.0.0.1:8000/orders/7
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
